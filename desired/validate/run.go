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
)

// Run validates files, by their path in the repository, in a child process of
// its own. An error means that no answer could be had; what is wrong with the
// files, also when they ate the child's memory or time, is in the result.
func Run(ctx context.Context, files map[string][]byte) (Result, error) {
	return RunWithin(ctx, DefaultLimits(), files)
}

// RunWithin is Run with other limits.
func RunWithin(ctx context.Context, limits Limits, files map[string][]byte) (Result, error) {
	if os.Getenv(childMark) != "" {
		// This is a child whose main went on. Another one would do the same.
		return Result{}, errors.New("validate.Child is not called first thing in main")
	}
	if len(unitsOf(files)) == 0 {
		return evaluate(nil, func(string) {}) // nothing to evaluate: an empty tree
	}
	body, err := json.Marshal(request{limits, files})
	if err != nil {
		return Result{}, fmt.Errorf("encoding files: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return Result{}, fmt.Errorf("finding own binary: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, limits.Wall)
	defer cancel()

	cmd := exec.CommandContext(within, self) //nolint:gosec // our own binary
	cmd.Args = []string{"gpuaas-validate"}
	cmd.Env = []string{childMark + "=1", "GOTRACEBACK=none"} // no secret of ours goes along
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(body)
	stdout, stderr := &bounded{limit: answerLimit}, &bounded{limit: complaintLimit}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = time.Second // a killed child leaves its pipes behind
	isolate(cmd)

	failure := cmd.Run()
	unit, last := readLines(stdout.Bytes())
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case last != nil && last.Failed != "":
		return Result{}, errors.New(last.Failed)
	case last != nil && failure == nil:
		return *last.Result, nil
	case cmd.ProcessState == nil:
		return Result{}, fmt.Errorf("starting validation: %w", failure)
	case unit == "" && within.Err() == nil:
		return Result{}, fmt.Errorf("validation ended early: %w: %s", failure, stderr.Bytes())
	}
	if unit == "" { // a machine so busy that the child hardly began
		unit = unitsOf(files)[0].name
	}
	return Result{Findings: []desired.Finding{verdict(limits, unit, cmd.ProcessState, within.Err() != nil, stderr.Bytes())}}, nil
}

// verdict says which limit the files have broken. The unit is what the child
// was at when it ended.
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
	// The kernel counts its limit in whole ticks of whoever ran, and rusage exactly:
	// on a busy machine they are far apart. Nobody else would have killed it.
	case ended.UserTime()+ended.SystemTime() >= l.CPU/2:
		f.Message = fmt.Sprintf("evaluating took more than %s of CPU", l.CPU)
	default:
		f.Code = desired.CodeEvaluatorFailed
		f.Message = "the evaluator broke down on these files: " + ended.String()
	}
	return f
}

// starved says that memory ended the child. Go's runtime does not always die of
// it in plain words, but a process that breaks down at half its memory or more
// was growing.
func starved(l Limits, ended *os.ProcessState, complaint []byte) bool {
	return ended.ExitCode() == exitMemory || bytes.Contains(complaint, []byte("out of memory")) ||
		ended.ExitCode() == exitCrash && peak(ended) > l.MemoryBytes/2
}

// exitCrash is the code of a Go program that the runtime ended.
const exitCrash = 2

// readLines finds the last unit and the answer among the child's lines.
func readLines(out []byte) (unit string, last *message) {
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var m message
		if d.Decode(&m) != nil {
			return unit, last
		}
		if m.Unit != "" {
			unit = m.Unit
			continue
		}
		last = &m
	}
}

const (
	// Twice the largest tree: an object's JSON is about as long as its source.
	answerLimit    = 32 << 20
	complaintLimit = 4 << 10
)

// bounded keeps the first bytes and drops the rest; a cut answer is no answer.
type bounded struct {
	bytes.Buffer
	limit int
}

func (b *bounded) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), b.limit-b.Len())])
	return len(p), nil
}
