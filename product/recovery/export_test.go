package recovery

const DeleteLoopJobs = deleteLoopJobs
