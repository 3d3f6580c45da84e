// Command natsd runs the NATS JetStream server of the product in a separate process, so that a test
// can kill it.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/gpuaas/gpuaas/internal/natsd"
)

func main() {
	dir := flag.String("dir", "", "folder of the streams")
	port := flag.Int("port", 0, "port on loopback; 0 means a free one")
	flag.Parse()
	s, err := natsd.Start(natsd.Config{Dir: *dir, Listen: true, Port: *port, Log: slog.New(slog.NewJSONHandler(os.Stderr, nil))})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.URL())
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, os.Interrupt, syscall.SIGTERM)
	<-asked
	s.Stop()
}
