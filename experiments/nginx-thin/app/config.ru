# The application behind nginx: about 4 KB of text, and one that tells which connection a request came over.
require 'sinatra/base'

class Application < Sinatra::Base
  disable :logging, :sessions, :static

  # 64 lines of 64 bytes: 4,096 bytes.
  PAGE = (0...64).map { |line| format('%02d %s', line, '.' * 60) + "\n" }.join.freeze

  FAMILIES = { Socket::AF_UNIX => 'unix', Socket::AF_INET => 'inet', Socket::AF_INET6 => 'inet6' }.freeze

  get '/' do
    content_type 'text/plain'
    PAGE
  end

  get %r{/sleep-(\d+)ms} do |milliseconds|
    sleep milliseconds.to_i / 1000.0
    content_type 'text/plain'
    PAGE
  end

  get %r{/busy-(\d+)ms} do |milliseconds|
    now = -> { Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :millisecond) }
    done = now.call + milliseconds.to_i
    nil while now.call < done
    content_type 'text/plain'
    PAGE
  end

  # FAMILY IDENTITY of the accepted socket. EventMachine gives every connection of a process a number of its own.
  get '/connection' do
    content_type 'text/plain'
    connection = request.env['async.callback'].receiver
    family = Addrinfo.new(connection.get_sockname).afamily
    "#{FAMILIES.fetch(family, family)} #{Process.pid}-#{connection.signature}"
  end
end

run Application
