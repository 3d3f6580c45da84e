package gpuops

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/gpuaas/gpuaas/agent/gpu"
	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/agent/gpu/nvml"
	"github.com/gpuaas/gpuaas/agent/health"
)

// The names of the children that call into the driver's library.
const (
	nvmlProbe   = "nvml"
	eventsProbe = "nvml-events" // it runs until its standard input is closed
)

// Library reads the driver's library in a child process. It uses the tool if the library does not
// respond or this build has none.
type Library struct {
	*nvidiasmi.Tool

	Self string // this program
}

// See returns everything that the driver reports.
func (l *Library) See(ctx context.Context) (gpu.Reading, error) {
	if !nvml.Built || l.Self == "" {
		return l.Tool.See(ctx)
	}
	text, err := health.Start(ctx, l.Self, "probe", nvmlProbe)
	var seen gpu.Reading
	if err == nil {
		err = json.Unmarshal(text, &seen)
	}
	if err != nil {
		l.Log.WarnContext(ctx, "NVML does not respond; using nvidia-smi", "err", err)
		return l.Tool.See(ctx)
	}
	if seen.Hostname, err = os.Hostname(); err != nil {
		return gpu.Reading{}, fmt.Errorf("reading host name: %w", err)
	}
	return seen, nil
}

func printNVML(out func([]byte) error) error {
	seen, err := nvml.See()
	if err != nil {
		return err
	}
	text, err := json.Marshal(seen)
	if err != nil {
		return fmt.Errorf("encoding devices: %w", err)
	}
	return out(text)
}
