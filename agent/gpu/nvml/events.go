//go:build nvml

package nvml

import (
	"context"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuaas/gpuaas/agent/health"
)

// Events passes each XID that the driver reports to each, until ctx ends or the driver fails.
func Events(ctx context.Context, each func(health.Event) error) error {
	return Follow(ctx, nvml.New(), each)
}

// waitMillis is the time after which a wait without an event checks ctx.
const waitMillis = 1000

// Follow reads the event set of a library. The addresses of the devices are read before the first event,
// because a device that is lost does not return its own.
func Follow(ctx context.Context, lib nvml.Interface, each func(health.Event) error) error {
	if err := failed("opening the driver", lib.Init()); err != nil {
		return err
	}
	defer lib.Shutdown()
	set, ret := lib.EventSetCreate()
	if err := failed("creating an event set", ret); err != nil {
		return err
	}
	defer set.Free()
	addresses, err := register(lib, set)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		e, ret := set.Wait(waitMillis)
		if ret == nvml.ERROR_TIMEOUT {
			continue
		}
		if err := failed("waiting for events", ret); err != nil {
			return err
		}
		if e.EventType&nvml.EventTypeXidCriticalError == 0 || addresses[e.Device] == "" {
			continue
		}
		if err := each(health.Event{PCI: addresses[e.Device], XID: int(e.EventData)}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// register adds each device that reports XIDs to the set, and returns the addresses of these devices.
func register(lib nvml.Interface, set nvml.EventSet) (map[nvml.Device]string, error) {
	n, ret := lib.DeviceGetCount()
	if err := failed("counting devices", ret); err != nil {
		return nil, err
	}
	addresses := map[nvml.Device]string{}
	for i := range n {
		d, ret := lib.DeviceGetHandleByIndex(i)
		if err := failed(fmt.Sprintf("opening device %d", i), ret); err != nil {
			return nil, err
		}
		if value(d.GetSupportedEventTypes())&nvml.EventTypeXidCriticalError == 0 {
			continue
		}
		if err := failed(fmt.Sprintf("registering device %d", i), d.RegisterEvents(nvml.EventTypeXidCriticalError, set)); err != nil {
			return nil, err
		}
		addresses[d] = address(value(d.GetPciInfo()))
	}
	return addresses, nil
}
