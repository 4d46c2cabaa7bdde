class Lasthop < Formula
  desc "Measures the last hop: how two processes on one machine should talk"
  homepage "REPOSITORY"
  version "VERSION"
  license any_of: ["MIT", "Apache-2.0"]
  depends_on :linux

  on_intel do
    url "REPOSITORY/releases/download/vVERSION/lasthop-VERSION-x86_64-linux-gnu.tar.gz"
    sha256 "SHA256-x86_64"
  end
  on_arm do
    url "REPOSITORY/releases/download/vVERSION/lasthop-VERSION-aarch64-linux-gnu.tar.gz"
    sha256 "SHA256-aarch64"
  end

  def install
    bin.install "lasthop"
    man1.install Dir["man/man1/*"]
    bash_completion.install "completions/lasthop.bash" => "lasthop"
    zsh_completion.install "completions/lasthop.zsh" => "_lasthop"
    fish_completion.install "completions/lasthop.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/lasthop --version")
    assert_match "unix", shell_output("#{bin}/lasthop run --budget 3s")
  end
end
