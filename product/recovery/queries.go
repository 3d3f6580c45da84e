package recovery

// deleteLoopJobs removes the unfinished jobs in the queues of the control loop.
const deleteLoopJobs = `DELETE FROM river.river_job WHERE queue IN ('provision', 'record') AND finalized_at IS NULL`
