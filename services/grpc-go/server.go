// A gRPC server: lasthop.Echo/Call sends back the message that it gets, lasthop.Echo/Calls says how many calls there were.
//
//	server unix PATH | tcp HOST:PORT [CERTIFICATE KEY]
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/golang/protobuf/ptypes/wrappers"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

type message = wrappers.BytesValue

var calls atomic.Int64

func echo(_ context.Context, in *message) (*message, error) {
	calls.Add(1)
	return in, nil
}

func count(context.Context, *message) (*message, error) {
	return &message{Value: []byte(strconv.FormatInt(calls.Load(), 10))}, nil
}

// method is what protoc would generate.
func method(name string, handle func(context.Context, *message) (*message, error)) grpc.MethodDesc {
	handler := func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(message)
		if err := decode(in); err != nil {
			return nil, err
		}
		return handle(ctx, in)
	}
	return grpc.MethodDesc{MethodName: name, Handler: handler}
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 && len(os.Args) != 5 {
		log.Fatal("usage: server unix PATH | tcp HOST:PORT [CERTIFICATE KEY]")
	}
	options := []grpc.ServerOption{}
	if len(os.Args) == 5 {
		tls, err := credentials.NewServerTLSFromFile(os.Args[3], os.Args[4])
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(tls))
	}
	listener, err := net.Listen(os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(options...)
	methods := []grpc.MethodDesc{method("Call", echo), method("Calls", count)}
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "lasthop.Echo", HandlerType: (*any)(nil), Methods: methods}, nil)

	ending := make(chan os.Signal, 1)
	signal.Notify(ending, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-ending
		server.Stop()
	}()
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d calls\n", calls.Load())
}
