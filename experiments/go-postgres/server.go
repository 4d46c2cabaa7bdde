// GET /N sends a query N times, one after the other, and sends what it read. Arguments: tcp HOST:PORT.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	// It is compiled once for all cases, and told where PostgreSQL is when it starts.
	dsn, err := os.ReadFile("dsn")
	if err != nil {
		log.Fatal(err)
	}
	pool, err := pgxpool.New(context.Background(), strings.TrimSpace(string(dsn)))
	if err != nil {
		log.Fatal(err)
	}
	read := func(ctx context.Context, statements int) (string, error) {
		connection, err := pool.Acquire(ctx)
		if err != nil {
			return "", err
		}
		defer connection.Release()
		text := ""
		for range make([]struct{}, statements) {
			var value int
			if err := connection.QueryRow(ctx, "SELECT 1").Scan(&value); err != nil {
				return "", err
			}
			if value != 1 {
				return "", fmt.Errorf("SELECT 1 answered %d", value)
			}
			text += strconv.Itoa(value)
		}
		return text, nil
	}
	answer := func(response http.ResponseWriter, request *http.Request) {
		statements, _ := strconv.Atoi(request.URL.Path[1:])
		text, err := read(request.Context(), statements)
		if err != nil {
			log.Print(err)
			response.WriteHeader(http.StatusInternalServerError)
			return
		}
		response.Header().Set("Content-Type", "text/plain")
		response.Header().Set("Content-Length", strconv.Itoa(len(text)))
		io.WriteString(response, text)
	}
	listener, err := net.Listen(os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, http.HandlerFunc(answer)))
}
