package nvidiasmi

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
)

var (
	linkOwner = regexp.MustCompile(`^GPU [0-9]+: .*\(UUID: (GPU-[0-9a-f-]+)\)$`)
	link      = regexp.MustCompile(`^Link ([0-9]+): (?:([0-9]+)(?:\.([0-9]+))? GB/s|<inactive>)$`)
)

// ParseLinks reads the output of nvidia-smi nvlink -s, which the XML lacks, and
// sets how many links of each GPU are up. An inactive link prints no speed.
func ParseLinks(r io.Reader, gpus []protocol.GPU) error {
	links, err := readLinks(r)
	if err != nil {
		return err
	}
	count(links, gpus)
	return nil
}

func count(links map[string][]protocol.NVLink, gpus []protocol.GPU) {
	for i, g := range gpus {
		gpus[i].NVLinks = 0
		for _, l := range links[g.UUID] {
			if l.Up {
				gpus[i].NVLinks++
			}
		}
	}
}

func readLinks(r io.Reader) (map[string][]protocol.NVLink, error) {
	owner, all := "", map[string][]protocol.NVLink{}
	lines := bufio.NewScanner(io.LimitReader(r, maxOutput))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if m := linkOwner.FindStringSubmatch(line); m != nil {
			owner = m[1]
		} else if m := link.FindStringSubmatch(line); m != nil && owner != "" {
			number, _ := strconv.Atoi(m[1])
			whole, _ := strconv.Atoi(m[2])
			part, _ := strconv.Atoi((m[3] + "000")[:3])
			all[owner] = append(all[owner], protocol.NVLink{Link: number, Up: m[2] != "", MBps: whole*1000 + part})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading NVLink state: %w", err)
	}
	return all, nil
}
