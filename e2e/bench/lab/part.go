package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
)

// Part is a child process of the bench that executes commands.
type Part struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (l *Lab) Part(ctx context.Context, name, variable string, parameters any) (*Part, error) {
	text, err := json.Marshal(parameters)
	if err != nil {
		return nil, fmt.Errorf("encoding the parameters: %w", err)
	}
	cmd, err := l.ChildCommand(ctx, name, variable+"="+string(text))
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", name, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return &Part{cmd, in, bufio.NewScanner(out)}, nil
}

func (p *Part) Do(command string) (t Outcome, err error) {
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		return t, fmt.Errorf("asking for %s: %w", command, err)
	}
	if !p.out.Scan() {
		return t, fmt.Errorf("asking for %s: %w", command, errors.Join(p.out.Err(), io.ErrUnexpectedEOF))
	}
	if err := json.Unmarshal(p.out.Bytes(), &t); err != nil {
		return t, fmt.Errorf("reading the answer to %s: %w", command, err)
	}
	if t.Err != "" {
		return t, fmt.Errorf("%s: %s", command, t.Err)
	}
	return t, nil
}

func (p *Part) End() {
	_ = p.in.Close()
	_ = p.cmd.Wait() // its output was read, and its measurements are complete
}

// Obey answers one command for each line until standard input ends. A Part runs it.
func Obey(ctx context.Context, do func(ctx context.Context, command string) Outcome) error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := json.NewEncoder(os.Stdout).Encode(do(ctx, in.Text())); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
	return nil
}

// OwnMemory returns the resident memory of this process in KiB, and its CPU time. Garbage is freed first, because its amount is
// random and would hide the memory of connections.
func OwnMemory() Outcome {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	own, _ := StatOf(os.Getpid())
	return Outcome{KiB: Resident(os.Getpid()) * 1024, CPU: own.Cpu}
}
