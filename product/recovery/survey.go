package recovery

import (
	"encoding/json"
	"fmt"

	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/payment/gap"
)

// The parts of a report that servers store while a restore is not confirmed.
const (
	PartPayments = "payments"
	PartStreams  = "streams"
)

// Survey contains the reports of foreign systems.
type Survey struct {
	// Payments is nil if no server has queried the provider: none runs, or payments are disabled.
	Payments *Payments `json:"payments"`
	Streams  *Streams  `json:"streams"`
}

// Payments are those of the lost time, or the reason why the provider cannot be queried.
type Payments struct {
	gap.List

	Error string `json:"error"`
}

// Streams are the streams of events that contain more than the database knows.
type Streams struct {
	Ahead []event.StreamEnd `json:"ahead"`
	Error string            `json:"error,omitempty"`
}

// Survey returns the present survey of the restore in progress.
func (s State) Survey() (all Survey, err error) {
	if s.InProgress == nil || len(s.InProgress.Report) == 0 {
		return Survey{}, nil
	}
	if err := json.Unmarshal(s.InProgress.Report, &all); err != nil {
		return Survey{}, fmt.Errorf("reading the report of the restore: %w", err)
	}
	return all, nil
}
