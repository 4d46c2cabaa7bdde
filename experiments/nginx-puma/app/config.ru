# The application behind nginx: a constant answer, and one that tells which connection a request came over.

FAMILIES = { Socket::AF_UNIX => 'unix', Socket::AF_INET => 'inet', Socket::AF_INET6 => 'inet6' }.freeze

# FAMILY INODE of the accepted socket. The kernel gives every socket an inode number of its own.
def connection(accepted)
  family = accepted.local_address.afamily
  "#{FAMILIES.fetch(family, family)} #{accepted.stat.ino}"
end

def handle(kind, milliseconds)
  return sleep(milliseconds / 1000.0) if kind == 'sleep'

  # CPU time of this thread, however long it takes to get it.
  now = -> { Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :millisecond) }
  done = now.call + milliseconds
  nil while now.call < done
end

run(lambda do |environment|
  path = environment['PATH_INFO']
  handle(Regexp.last_match(1), Regexp.last_match(2).to_i) if path =~ %r{\A/(sleep|busy)-(\d+)ms\z}
  text = path == '/connection' ? connection(environment['puma.socket'].to_io) : 'Hello there!'
  [200, { 'Content-Type' => 'text/plain', 'Content-Length' => text.bytesize.to_s }, [text]]
end)
