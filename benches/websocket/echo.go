// A WebSocket echo and its client, of golang.org/x/net: what lasthop's own client is compared with.
//
//	echo serve NETWORK ADDRESS [NETWORK ADDRESS]
//	echo load NETWORK ADDRESS CONNECTIONS SECONDS    prints requests, seconds and the median in microseconds
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"sort"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/websocket"
)

const size = 64

func main() {
	runtime.GOMAXPROCS(1)
	arguments := os.Args[2:]
	if os.Args[1] == "serve" {
		failed := make(chan error)
		for ; len(arguments) > 1; arguments = arguments[2:] {
			listener := must(net.Listen(arguments[0], arguments[1]))
			go func() { failed <- http.Serve(listener, websocket.Server{Handler: echo}) }()
		}
		log.Fatal(<-failed)
	}
	load(arguments[0], arguments[1], must(strconv.Atoi(arguments[2])), must(strconv.ParseFloat(arguments[3], 64)))
}

func echo(connection *websocket.Conn) {
	var message string
	for websocket.Message.Receive(connection, &message) == nil {
		if websocket.Message.Send(connection, message) != nil {
			return
		}
	}
}

func load(network, address string, connections int, seconds float64) {
	message := string(make([]byte, size))
	begin := time.Now()
	end := begin.Add(time.Duration(seconds * float64(time.Second)))
	taken := make([][]time.Duration, connections)
	var all sync.WaitGroup
	for number := range taken {
		all.Add(1)
		go func() {
			defer all.Done()
			config := must(websocket.NewConfig("ws://localhost/", "http://localhost/"))
			connection := must(websocket.NewClient(config, must(net.Dial(network, address))))
			for at := time.Now(); at.Before(end); {
				var reply string
				if err := websocket.Message.Send(connection, message); err != nil {
					log.Fatal(err)
				}
				if err := websocket.Message.Receive(connection, &reply); err != nil || reply != message {
					log.Fatal("wrong reply: ", err)
				}
				now := time.Now()
				taken[number] = append(taken[number], now.Sub(at))
				at = now
			}
		}()
	}
	all.Wait()
	var sorted []time.Duration
	for _, times := range taken {
		sorted = append(sorted, times...)
	}
	sort.Slice(sorted, func(a, b int) bool { return sorted[a] < sorted[b] })
	fmt.Printf("{\"requests\": %d, \"seconds\": %f, \"median_us\": %f}\n", len(sorted), time.Since(begin).Seconds(),
		float64(sorted[len(sorted)/2].Nanoseconds())/1e3)
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
