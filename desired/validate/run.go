package validate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
)

// Run validates files, by their path in the repository, in a child process of
// its own. An error means that no answer could be had; what is wrong with the
// files, also when they ate the child's memory or time, is in the result.
func Run(ctx context.Context, files map[string][]byte) (Result, error) {
	return runWithin(ctx, DefaultLimits(), files)
}

// runWithin is Run with other limits.
func runWithin(ctx context.Context, limits Limits, files map[string][]byte) (Result, error) {
	if len(unitsOf(files)) == 0 {
		return together(nil), nil // nothing to evaluate: an empty tree
	}
	parts, findings, err := runUnits(ctx, limits, files)
	if err != nil || findings != nil {
		return Result{Findings: findings}, err
	}
	return together(parts), nil
}

// runUnits evaluates files in a child, unit by unit. The findings are about a
// child that broke its limits; what is wrong within a unit is in its part.
func runUnits(ctx context.Context, limits Limits, files map[string][]byte) (map[string]*part, []desired.Finding, error) {
	if os.Getenv(childMark) != "" {
		// This is a child whose main went on. Another one would do the same.
		return nil, nil, errors.New("validate.Child is not the first call in main")
	}
	body, err := json.Marshal(request{limits, files})
	if err != nil {
		return nil, nil, fmt.Errorf("encoding files: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding own binary: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, limits.Wall)
	defer cancel()

	cmd := exec.CommandContext(within, self) //nolint:gosec // our own binary
	cmd.Args = []string{"gpuaas-validate"}
	// The child inherits no secret. It has one thread, so that a bomb leaves the other CPUs free;
	// evaluation is sequential in any case.
	cmd.Env = []string{childMark + "=1", "GOTRACEBACK=none", "GOMAXPROCS=1"}
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(body)
	stdout, stderr := &bounded{limit: answerLimit(body)}, &bounded{limit: complaintLimit}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = time.Second // a killed child leaves its pipes behind
	isolate(cmd)

	failure := cmd.Run()
	child := listen(stdout.Bytes())
	switch {
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case child.failed != "":
		return nil, nil, errors.New(child.failed)
	case child.done && failure == nil:
		return child.parts, nil, nil
	case cmd.ProcessState == nil:
		return nil, nil, fmt.Errorf("starting validation: %w", failure)
	case child.unit == "" && within.Err() == nil:
		return nil, nil, fmt.Errorf("validation ended early: %w: %s", failure, stderr.Bytes())
	}
	if child.unit == "" { // a computer so busy that the child hardly began
		child.unit = unitsOf(files)[0].name
	}
	f := verdict(limits, child.unit, cmd.ProcessState, within.Err() != nil, stderr.Bytes())
	if failure == nil {
		f = document.Place{Path: child.unit, Line: 1, Column: 1}.Finding(desired.CodeEvaluationLimit, "", "", fmt.Sprintf("declares more than %d MiB", stdout.limit>>20), "fewer objects")
	}
	return nil, []desired.Finding{f}, nil
}

// verdict returns the finding about the limit that the files have exceeded. The unit is the one
// that the child was evaluating when it ended.
func verdict(l Limits, unit string, ended *os.ProcessState, late bool, complaint []byte) desired.Finding {
	f := desired.Finding{
		Code: desired.CodeEvaluationLimit, Path: unit, Line: 1, Column: 1,
		Expected: fmt.Sprintf("declarations that evaluate within %d MiB, %s of CPU and %s", l.MemoryBytes>>20, l.CPU, l.Wall),
	}
	switch {
	case late:
		f.Message = fmt.Sprintf("evaluating took longer than %s", l.Wall)
	case starved(l, ended, complaint):
		f.Message = fmt.Sprintf("evaluating took more than %d MiB of memory", l.MemoryBytes>>20)
	// The kernel counts the CPU limit in whole ticks and rusage exactly. On a busy computer the two
	// differ widely, so half of the limit is enough to explain a SIGKILL: no other process would
	// have sent it.
	case ended.UserTime()+ended.SystemTime() >= l.CPU/2:
		f.Message = fmt.Sprintf("evaluating took more than %s of CPU", l.CPU)
	default:
		f.Code = desired.CodeEvaluatorFailed
		f.Message = "the evaluator broke down on these files: " + ended.String()
	}
	return f
}

// starved reports whether the child ended for lack of memory. Go's runtime does not always report
// it clearly, but a process that fails at half of its limit or more was growing.
func starved(l Limits, ended *os.ProcessState, complaint []byte) bool {
	return ended.ExitCode() == exitMemory || bytes.Contains(complaint, []byte("out of memory")) ||
		ended.ExitCode() == exitCrash && peak(ended) > l.MemoryBytes/2
}

// exitCrash is the code of a Go program that the runtime ended.
const exitCrash = 2

// childOutput is the output of a child before its end.
type childOutput struct {
	unit   string // the last one it touched
	parts  map[string]*part
	done   bool
	failed string
}

func listen(out []byte) childOutput {
	s := childOutput{parts: map[string]*part{}}
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var m message
		if d.Decode(&m) != nil {
			return s
		}
		switch {
		case m.Unit != "":
			s.unit = m.Unit
		case m.Part != nil:
			s.parts[s.unit] = m.Part.part(s.unit)
		default:
			s.done, s.failed = m.Done, m.Failed
		}
	}
}

// An object's JSON with its places is about as long as its source, and a template
// can make many of a few lines.
func answerLimit(body []byte) int { return max(32<<20, 3*len(body)) }

const complaintLimit = 4 << 10

// bounded stores the first bytes and drops the rest. A truncated output is discarded as a whole.
type bounded struct {
	bytes.Buffer
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.limit-b.Len())])
	return len(p), nil
}
