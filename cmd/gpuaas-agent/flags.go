package main

import (
	"errors"
	"flag"
	"fmt"
)

func (p process) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("gpuaas-agent "+p.name, flag.ContinueOnError)
	flags.SetOutput(p.errOut)
	return flags
}

// parse reads flags and rejects other arguments.
func (p process) parse(flags *flag.FlagSet) error {
	if err := flags.Parse(p.args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return &usageError{err}
	}
	if flags.NArg() > 0 {
		return &usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	return nil
}
