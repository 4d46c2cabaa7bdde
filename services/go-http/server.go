// Answers "Hello there!", after it has slept or computed if the path asks for that. /connection tells which connection a
// request came over. Arguments: unix PATH or tcp HOST:PORT.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

type key int

const connection key = 0

var (
	accepted atomic.Int64
	handler  = regexp.MustCompile(`^/(sleep|busy)-([0-9]+)ms$`)
)

// used is the CPU time of the calling thread.
func used() time.Duration {
	var usage syscall.Rusage
	const thread = 1
	if err := syscall.Getrusage(thread, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func handle(kind string, length time.Duration) {
	if kind == "sleep" {
		time.Sleep(length)
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for until := used() + length; used() < until; {
	}
}

// family and identity of the accepted connection: connections are counted.
func which(request *http.Request) string {
	family := "inet"
	address := request.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if address.Network() == "unix" {
		family = "unix"
	} else if address.(*net.TCPAddr).IP.To4() == nil {
		family = "inet6"
	}
	return fmt.Sprintf("%s %d-%d", family, os.Getpid(), request.Context().Value(connection))
}

func answer(response http.ResponseWriter, request *http.Request) {
	text := "Hello there!"
	if found := handler.FindStringSubmatch(request.URL.Path); found != nil {
		milliseconds, _ := strconv.Atoi(found[2])
		handle(found[1], time.Duration(milliseconds)*time.Millisecond)
	} else if request.URL.Path == "/connection" {
		text = which(request)
	}
	response.Header().Set("Content-Type", "text/plain")
	response.Header().Set("Content-Length", strconv.Itoa(len(text)))
	io.WriteString(response, text)
}

func main() {
	listener, err := net.Listen(os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	server := http.Server{
		Handler: http.HandlerFunc(answer),
		ConnContext: func(parent context.Context, _ net.Conn) context.Context {
			return context.WithValue(parent, connection, accepted.Add(1))
		},
	}
	log.Fatal(server.Serve(listener))
}
