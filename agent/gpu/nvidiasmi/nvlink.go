package nvidiasmi

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/gpuaas/gpuaas/agent/wire"
)

var (
	linkOwner = regexp.MustCompile(`^GPU [0-9]+: .*\(UUID: (GPU-[0-9a-f-]+)\)$`)
	link      = regexp.MustCompile(`^Link [0-9]+: [0-9.]+ GB/s$`)
)

// ParseLinks reads the output of nvidia-smi nvlink -s, which the XML lacks, and
// sets how many links of each GPU are up. An inactive link prints no speed.
func ParseLinks(r io.Reader, gpus []wire.GPU) error {
	owner := -1
	lines := bufio.NewScanner(io.LimitReader(r, maxOutput))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if m := linkOwner.FindStringSubmatch(line); m != nil {
			owner = -1
			for i := range gpus {
				if gpus[i].UUID == m[1] {
					owner, gpus[i].NVLinks = i, 0
				}
			}
		} else if owner >= 0 && link.MatchString(line) {
			gpus[owner].NVLinks++
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading NVLink state: %w", err)
	}
	return nil
}
