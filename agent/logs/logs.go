// Package logs reads lines of logs of a node within limits. It decides what a stream sends: the last lines before it, those after
// it, and the number of lines that its reader was too slow for. The host OS provides the lines.
package logs

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// Line is a line of a log.
type Line struct {
	At   time.Time
	Text string
}

// Scope selects the lines of a stream. Without an account it is a log of the node.
type Scope struct {
	Source protocol.LogSource
	User   string
	UID    int
	// Since is the least time of a line. For an allocation it is never before its provisioning: the account may have had another
	// tenant.
	Since time.Time
	// Tail is a hint for the number of lines before the stream begins.
	Tail   int
	Follow bool
}

// Source calls each with the lines of a scope, oldest first. With Follow it goes on until ctx ends.
type Source func(ctx context.Context, s Scope, each func(Line)) error

// maxPast limits the memory of the lines that a stream begins with.
const maxPast = 8 << 20

// past contains the last lines before a stream begins.
type past struct {
	lines []numbered
	size  int
	lost  int
	most  int
}

func (p *past) add(l numbered) {
	p.lines, p.size = append(p.lines, l), p.size+len(l.Text)
	for len(p.lines) > 0 && (len(p.lines) > p.most || p.size > maxPast) {
		p.size -= len(p.lines[0].Text)
		p.lines, p.lost = p.lines[1:], p.lost+1
	}
}
