package update

import (
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// earlyBy is the tolerated lead of the clock of the control plane over the clock of the node.
const earlyBy = 5 * time.Minute

// evaluate verifies the release of a task and returns it. It rejects a release that this node must not
// install.
func (u *Updater) evaluate(p protocol.AgentUpdateParams, floor string) (protocol.Release, error) {
	r, err := protocol.OpenRelease(p.Metadata, p.Signature, u.Keys())
	if err != nil {
		return r, err
	}
	now := u.Clock.Now()
	switch {
	case r.Version != p.Version || r.Digest != p.Digest || r.Size != p.Size:
		return r, protocol.Reject(protocol.ParamsInvalid, "the task names another build than the release")
	case r.Platform != u.Platform:
		return r, protocol.Reject(protocol.ParamsInvalid, "a build for %s, this is %s", r.Platform, u.Platform)
	case r.Minimum == "" && protocol.Ordered(r.Version):
		return r, protocol.Reject(protocol.ParamsInvalid, "the release of %s names no lowest version: publish it again", r.Version)
	case !now.Before(r.ExpiresAt):
		return r, protocol.Reject(protocol.Expired, "the release expired at %s, the time of this node is %s", r.ExpiresAt.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case now.Add(earlyBy).Before(r.IssuedAt):
		return r, protocol.Reject(protocol.NotYetValid, "the release was issued at %s, the time of this node is %s", r.IssuedAt.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case !protocol.AtLeast(r.Version, floor):
		return r, protocol.Reject(protocol.DowngradeRejected, "%s is below %s, the lowest version of this node", r.Version, floor)
	}
	return r, nil
}
