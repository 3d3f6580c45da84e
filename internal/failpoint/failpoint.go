// Package failpoint marks the moments at which a crash matters. A point costs
// one atomic load until it is armed.
//
// GPUAAS_FAILPOINT=name[:n] ends the process with SIGKILL at the n-th hit of
// name (the first by default): nothing is flushed and no deferred call runs,
// just as when the machine takes the process away. GPUAAS_FAILPOINT_LOG names a
// file to which the hit is appended, so that a test can assert that the chosen
// point was reached; a point that stands in it already kills nobody again.
// GPUAAS_FAILPOINT_GATE names a file before whose existence no hit counts, so
// that a start can be left behind. All work only in a binary built with
// -tags failpoint.
package failpoint

// Points lists every failpoint of the product. A test holds it against the
// calls in the code.
var Points = []string{
	"identity.change.before_commit",
	"identity.change.after_commit",
	"change.apply.before_commit",
	"change.apply.after_commit",
	"allocation.request.before_commit",
	"allocation.request.after_commit",
	"allocation.place.before_commit",
	"allocation.place.after_commit",
	"allocation.release.after_commit",
	"loop.pass.before_commit",
	"loop.pass.after_commit",
	"job.ensure.before_commit",
	"job.ensure.after_commit",
	"job.release.before_commit",
	"job.release.after_commit",
	"job.record.before_commit",
	"job.record.after_commit",
	"job.object.after_commit",
	"job.accrue.before_commit",
	"job.accrue.after_commit",
	"runway.check.before_commit",
	"runway.check.after_commit",
	"job.payment_event.before_commit",
	"job.payment_event.after_commit",
	"job.payment_refund.before_commit",
	"job.payment_refund.after_commit",
	"payment.begin.after_row",
	"payment.begin.after_provider",
	"payment.begin.before_commit",
	"payment.begin.after_commit",
	"payment.receive.before_commit",
	"payment.receive.after_commit",
	"payment.process.after_payment",
	"payment.process.after_transfer",
	"payment.process.after_session",
	"payment.process.after_fact",
	"payment.process.after_event",
	"payment.sweep.before_commit",
	"payment.refund.before_commit",
	"payment.refund.after_commit",
	"payment.refund.after_provider",
	"nodeapi.report.before_commit",
	"nodeapi.report.after_commit",
	"nodeapi.result.after_commit",
	"metering.cut.before_commit",
	"metering.cut.after_commit",
	"relay.after_publish",
	"relay.after_position",
	"agent.task.before_journal",
	"agent.task.after_journal",
	"agent.step.before_do",
	"agent.step.after_do",
	"agent.task.before_result",
	"agent.task.after_result",
	"git.apply.fetched",
	"git.apply.validated",
	"git.apply.planned",
	"git.apply.before_commit",
	"git.apply.after_commit",
	"git.apply.reported",
}
