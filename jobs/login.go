package jobs

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/protocol"
)

// task returns the task for the node. If nothing but the login keys and rules can differ, the task is
// rotate_keys and changes nothing else. A leaked key must be removed from a node with an unhealthy GPU, too, and
// open sessions and processes of the tenant must not be put at risk.
func (w *ensureAllocation) task(ctx context.Context, tx pgx.Tx, a allocation.Allocation, want desired.Object, spec desired.Allocation) (nodetask.Task, error) {
	whole := protocol.ProvisionUserParams{User: spec.Login, UID: spec.UID, PublicKeys: spec.Keys, GPUs: spec.GPUUUIDs}
	o := nodetask.Task{
		Node: a.Node, Allocation: a.ID, Type: protocol.ProvisionUser, Fence: want.Fence, Generation: want.Generation,
		SpecHash: want.SpecHash, Slots: spec.GPUUUIDs, Trace: a.Trace, Params: whole,
	}
	capability, known, err := w.d.Observed.Capability(ctx, tx, a.Node)
	if err != nil {
		return o, err
	}
	var rules *protocol.Access
	if !known || capability >= protocol.AccessCapability {
		rules = new(w.d.Access.Rules(a.Tenant, a.Project).Task())
		whole.Access = *rules
	}
	if err := w.d.Access.Sent(ctx, tx, a.ID, rules); err != nil {
		return o, err
	}
	if known && capability < protocol.RotateKeys.Capability() {
		// An older agent rejects limits and authorities, too: both came with this task type.
		return o, nil
	}
	l := w.d.Logins(a.SKU, a.Region)
	whole.Limits, whole.StopAfterHours = l.Limits, l.StopAfterHours
	if w.d.UserCA != nil {
		if whole.UserCA = w.d.UserCA(); len(whole.UserCA) > 0 {
			whole.Principal = a.ID.String()
		}
	}
	if whole.Revoked, err = w.d.Allocations.Revoked(ctx, tx, a.ID); err != nil {
		return o, err
	}
	// An agent that was replaced by an older one would reject the whole task. The condition StorageMounted is false then.
	if len(spec.Mounts) > 0 && (!known || capability >= protocol.MountCapability) {
		if whole.Storage, err = storageOf(a, spec); err != nil {
			return o, err
		}
	}
	o.Params = whole
	lastApplied, ok, err := w.d.Tasks.LastApplied(ctx, tx, a.ID, want.Fence)
	if err != nil {
		return o, err
	}
	if ok && sameWithoutLogins(lastApplied, whole) {
		o.Type = protocol.RotateKeys
		o.Params = protocol.RotateKeysParams{
			User: whole.User, UID: whole.UID, PublicKeys: whole.PublicKeys, GPUs: whole.GPUs, UserCA: whole.UserCA, Revoked: whole.Revoked, Access: whole.Access,
		}
	}
	return o, nil
}

// sameWithoutLogins reports whether rotate_keys alone leads from the present parameters to the desired
// ones. Keys and rules can be equal, too: after a policy that has changed there and back, the node
// needs a task of the new fence only. A repair has the fence of the last task, and is a whole provisioning.
func sameWithoutLogins(applied, want protocol.ProvisionUserParams) bool {
	return applied.User == want.User && applied.UID == want.UID && slices.Equal(applied.GPUs, want.GPUs) && applied.Limits == want.Limits &&
		applied.Principal == want.Principal && applied.StopAfterHours == want.StopAfterHours && reflect.DeepEqual(applied.Storage, want.Storage)
}

// storageOf returns the mounts of an allocation. The bucket is the id of the project, which a new name does not change.
func storageOf(a allocation.Allocation, spec desired.Allocation) (*protocol.Storage, error) {
	if spec.MountEndpoint == "" {
		return nil, errors.New("allocation " + a.ID.String() + " has mounts, and the profile had no storage.s3Url when it was placed")
	}
	s := &protocol.Storage{Endpoint: spec.MountEndpoint, Bucket: a.Project.String()}
	for _, m := range spec.Mounts {
		s.Mounts = append(s.Mounts, protocol.Mount(m))
	}
	return s, nil
}
