//go:build nvml

package nvml_test

import (
	"context"
	"errors"
	"testing"

	lib "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/gpuaas/gpuaas/agent/gpu/nvml"
	"github.com/gpuaas/gpuaas/agent/health"
)

func (*ill) GetSupportedEventTypes() (uint64, lib.Return) {
	return lib.EventTypeXidCriticalError | lib.EventTypeClock, lib.SUCCESS
}

func (d *ill) RegisterEvents(types uint64, _ lib.EventSet) lib.Return {
	d.registered = types == lib.EventTypeXidCriticalError
	return lib.SUCCESS
}

func TestXIDsOfTheEventSet(t *testing.T) {
	t.Parallel()
	s := server(nil)
	events := []lib.EventData{
		{Device: s.Devices[3], EventType: lib.EventTypeXidCriticalError, EventData: 79},
		{Device: s.Devices[3], EventType: lib.EventTypeClock, EventData: 13},
		{Device: s.Devices[5], EventType: lib.EventTypeXidCriticalError, EventData: 48},
	}
	waits := 0
	s.EventSetCreateFunc = func() (lib.EventSet, lib.Return) {
		return &mock.EventSet{
			FreeFunc: func() lib.Return { return lib.SUCCESS },
			WaitFunc: func(uint32) (lib.EventData, lib.Return) {
				if waits++; waits == 1 {
					return lib.EventData{}, lib.ERROR_TIMEOUT
				}
				if waits-2 < len(events) {
					return events[waits-2], lib.SUCCESS
				}
				return lib.EventData{}, lib.ERROR_GPU_IS_LOST
			},
		}, lib.SUCCESS
	}
	var got []health.Event
	err := nvml.Follow(t.Context(), s, func(e health.Event) error { got = append(got, e); return nil })
	if err == nil || len(got) != 2 || got[0] != (health.Event{PCI: "0000:03:00.0", XID: 79}) || got[1].XID != 48 {
		t.Errorf("%+v, %v", got, err)
	}
	if d, _ := s.Devices[7].(*ill); !d.registered {
		t.Error("a device is not registered")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := nvml.Follow(ctx, s, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
