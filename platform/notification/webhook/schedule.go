package webhook

import (
	"math/rand/v2"
	"time"
)

// pauses are the times between the ten attempts of a delivery, as Standard Webhooks recommends them: after the last one,
// three days have passed.
var pauses = [...]time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	// disableAfter is the time for which all attempts have failed when an endpoint is disabled.
	disableAfter = 5 * 24 * time.Hour
	// jitter is the part of a pause by which it differs, so that the retries of an outage do not arrive at once.
	jitter = 0.1
)

// pauseAfter returns the pause after this number of failures, or false after the last attempt.
func pauseAfter(failures int) (time.Duration, bool) {
	if failures > len(pauses) {
		return 0, false
	}
	p := float64(pauses[failures-1])
	return time.Duration(p + p*jitter*(2*rand.Float64()-1)), true //nolint:gosec // a jitter is no secret
}
