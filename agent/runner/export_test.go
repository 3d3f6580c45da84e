package runner

// MostGone is the limit of a report.
const MostGone = mostGone

// SetMostRecords limits the records of a journal until the returned function is called.
func SetMostRecords(n int) (restore func()) {
	before := mostRecords
	mostRecords = n
	return func() { mostRecords = before }
}
