package task

import (
	"github.com/gpuaas/gpuaas/agent/step"
	"github.com/gpuaas/gpuaas/protocol"
)

// rotateKeys replaces the keys that log in to an account.
func rotateKeys() Handler {
	return Handler{
		Type: protocol.RotateKeys, Supported: needsHost(protocol.RotateKeys), Check: isProvisioned, Steps: rotationSteps,
		Run: runSteps, Resume: unlessExpired(runSteps),
	}
}

// rotationSteps do not check the GPUs: a key that leaked must also be removed where a GPU is unhealthy. The settings of an
// older agent lack the rules of sshd for the groups of the account.
// Open sessions continue.
func rotationSteps() []step.Step {
	return []step.Step{step.PutLoginKeys(), step.PutSettings(), step.VerifyKeys()}
}

func isProvisioned(a Admission) error {
	if a.Record.Provisioning() == nil {
		return protocol.Reject(protocol.ParamsInvalid, "allocation %s is not on this node", a.Envelope.Allocation)
	}
	return slotsFree(a)
}
