package event

import (
	"time"

	"github.com/gpuaas/gpuaas/policies"
)

// RetentionFrom returns the function that reads the retention of published events.
func RetentionFrom(c *policies.Client) func() time.Duration {
	return func() time.Duration {
		return time.Duration(c.Latest().For().Int(policies.EventOutboxDays)) * 24 * time.Hour
	}
}
