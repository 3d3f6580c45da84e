package bundle

// The quick reader of a payload, and the one that decides and names faults.
var (
	ScanContent = scanContent
	ReadContent = readContent
)

// Check compares a content with itself.
func Check(c Content) *Fault { return c.check() }
