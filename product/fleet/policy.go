package fleet

import (
	"time"

	"github.com/gpuaas/gpuaas/policies"
)

// DrainGraceFrom returns a function that reads how long allocations may stay on a draining node.
func DrainGraceFrom(client *policies.Client) func(node string) time.Duration {
	return func(node string) time.Duration {
		return time.Duration(client.Latest().For(policies.In(policies.LevelNode, node)).Int(policies.NodeDrainGraceMinutes)) * time.Minute
	}
}

// TokenLifeFrom returns a function that reads how long an enrolment token is valid.
func TokenLifeFrom(client *policies.Client) func() time.Duration {
	return func() time.Duration {
		return time.Duration(client.Latest().For().Int(policies.NodeEnrolmentTokenMinutes)) * time.Minute
	}
}

// InspectionsFrom returns a function that reads how many operators must have inspected a slot.
func InspectionsFrom(client *policies.Client) func() int {
	return func() int { return int(client.Latest().For().Int(policies.NodeInspectionApprovals)) }
}
