package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
)

// part is a process of the bench that obeys commands.
type part struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (l *lab) part(ctx context.Context, name, variable string, order any) (*part, error) {
	text, err := json.Marshal(order)
	if err != nil {
		return nil, fmt.Errorf("encoding an order: %w", err)
	}
	cmd, err := l.childCommand(ctx, name, variable+"="+string(text))
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
	return &part{cmd, in, bufio.NewScanner(out)}, nil
}

func (p *part) do(command string) (t outcome, err error) {
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

func (p *part) end() {
	_ = p.in.Close()
	_ = p.cmd.Wait() // its output was read, and what it measured counts
}

// gathering is a listener and a crowd before it.
type gathering struct {
	door, crowd *part
}

func (l *lab) gathering(ctx context.Context, kind string, agents int) (g gathering, err error) {
	secrets := filepath.Join(l.dir, "crowd")
	if g.door, err = l.part(ctx, "listener", listenerVariable, listenerOrder{kind, secrets}); err != nil {
		return g, err
	}
	address, err := g.door.do("address")
	if err == nil {
		g.crowd, err = l.part(ctx, "crowd", crowdVariable, crowdOrder{address.Text, kind, secrets, agents})
	}
	if err == nil {
		_, err = g.crowd.do("ready")
	}
	if err != nil {
		g.end()
	}
	return g, err
}

func (g gathering) end() {
	if g.crowd != nil {
		g.crowd.end()
	}
	g.door.end()
}
