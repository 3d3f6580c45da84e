//go:build !race

package git

// race says that memory is the detector's, not ours.
const race = false
