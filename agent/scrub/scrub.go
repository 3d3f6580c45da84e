// Package scrub overwrites the memory of a GPU and reads samples of it back. It runs in a child
// process that has no secret and may crash with its driver. A build without the tag cuda returns an
// error, which makes a release fail as scrub_failed, so that no slot is sold without a scrub.
//
// The result states that all memory that could be allocated was overwritten, and that the samples
// had the written values. The scrub cannot reach memory that a driver reserves for itself.
package scrub

import (
	"errors"
	"regexp"
)

// ErrUnable means that this build cannot scrub.
var ErrUnable = errors.New("this build cannot overwrite GPU memory, because it was built without CUDA; name another program as scrub in agent.yaml")

// Result describes a scrub.
type Result struct {
	GPU        string `json:"gpu"`
	TotalMiB   int64  `json:"total_mib"`
	WrittenMiB int64  `json:"written_mib"`
	Samples    int    `json:"samples"`
}

// leastPercent is the part of the memory that a scrub must reach. Contexts and tables of the driver need
// some hundred MiB. Less means that another process still has memory.
const leastPercent = 95

var gpuUUID = regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// GPU scrubs one device.
func GPU(uuid string) (Result, error) {
	if !gpuUUID.MatchString(uuid) {
		return Result{}, errors.New("not the UUID of a GPU")
	}
	r, err := overwrite(uuid)
	r.GPU = uuid
	if err == nil && r.WrittenMiB*100 < r.TotalMiB*leastPercent {
		err = errors.New("only a part of the memory could be allocated: another process uses the rest")
	}
	return r, err
}
