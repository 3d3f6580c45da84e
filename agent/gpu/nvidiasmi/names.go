package nvidiasmi

import "bytes"

// WithoutNames removes the names of processes from what nvidia-smi -q -x printed. A tenant chooses the name of its
// process, and the tool may not escape it: the rest must not depend on it. A name ends with its line. One
// with a line break in it ends the entry of its GPU: what follows could be the tenant's text, so the GPU has no
// further process, and no further value.
func WithoutNames(text []byte) []byte {
	if !bytes.Contains(text, nameBegins) {
		return text
	}
	out, broken := make([]byte, 0, len(text)), false
	for line := range bytes.Lines(text) {
		word := bytes.TrimSpace(line)
		switch {
		case broken && !bytes.Equal(word, gpuEnds):
		case broken:
			out, broken = append(out, line...), false
		case !bytes.HasPrefix(word, nameBegins):
			out = append(out, line...)
		case bytes.HasSuffix(word, nameEnds):
			out = append(out, "<process_name/>\n"...)
		default:
			out, broken = append(out, "<process_name/></process_info></processes>\n"...), true
		}
	}
	return out
}

var nameBegins, nameEnds, gpuEnds = []byte("<process_name>"), []byte("</process_name>"), []byte("</gpu>")
