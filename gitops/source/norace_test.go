//go:build !race

package source

// race says that memory is the detector's, not ours.
const race = false
