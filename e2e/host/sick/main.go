// Command sick is a faulty build of the agent. It prints its version, and then it either exits at
// once or runs without sending a report.
package main

import (
	"fmt"
	"os"
	"os/signal"
)

var (
	version = "v0.0.0" // set by the linker
	silent  = ""       // likewise; not empty: it runs
)

func main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "version":
		fmt.Printf("gpuaas-agent %s, envelope 1, capability 2\n", version)
	case silent != "":
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, os.Interrupt)
		<-ended
	default:
		os.Exit(1)
	}
}
