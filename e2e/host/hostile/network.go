package main

import (
	"fmt"
	"net"
	"os"
	"time"
)

// listen prints a line for everything that arrives at its addresses.
func listen() error {
	for _, address := range os.Args[2:] {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		u, err := net.ListenPacket("udp", address)
		if err != nil {
			return err
		}
		forever(func() {
			c, err := l.Accept()
			if err == nil {
				fmt.Println("accepted", c.RemoteAddr())
				_ = c.Close()
			}
		})
		forever(func() {
			if n, from, err := u.ReadFrom(make([]byte, 100)); err == nil {
				fmt.Println("received", n, from)
			}
		})
	}
	return nil
}

// connections connects to each address, and floods it. It fails if one answers.
func connections() error {
	for _, address := range os.Args[2:] {
		began := time.Now()
		c, err := net.DialTimeout("tcp", address, 500*time.Millisecond)
		if err == nil {
			_ = c.Close()
			return fmt.Errorf("%s is reached", address)
		}
		fmt.Fprintf(os.Stderr, "%s: %v after %s\n", address, err, time.Since(began).Round(time.Millisecond))
		for range 20 {
			go func() {
				for {
					if c, err := net.DialTimeout("tcp", address, 100*time.Millisecond); err == nil {
						_ = c.Close()
					}
				}
			}()
		}
		if u, err := net.Dial("udp", address); err == nil {
			forever(func() {
				_, _ = u.Write([]byte("x"))
				time.Sleep(100 * time.Microsecond)
			})
		}
	}
	return nil
}
