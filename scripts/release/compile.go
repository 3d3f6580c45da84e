package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// compile builds a program without paths of this computer in it. The linker's build id depends on the computer, so it is empty.
func (r *release) compile(p platform, program, to string) error {
	flags := "-s -w -buildid= -X github.com/gpuaas/gpuaas/internal/version.Version=" + r.version
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-tags", "nomsgpack", "-ldflags", flags, "-o", to, "./cmd/"+program) //nolint:noctx,gosec // ends with its parent's terminal
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOENV=off", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GODEBUG=", "GOOS="+p.system, "GOARCH="+p.architecture, "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s for %s/%s: %w\n%s", program, p.system, p.architecture, err, out)
	}
	return nil
}

// git returns the output of git without its last newline.
func git(args ...string) (string, error) {
	cmd := exec.Command("git", args...) //nolint:noctx,gosec // as above
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, failure.String())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
