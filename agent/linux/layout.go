package linux

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/agent/gpu/nvidiasmi"
	"github.com/gpuaas/gpuaas/protocol"
)

// card is one GPU as the driver reports it.
type card struct {
	protocol.GPU

	minor     int // of its device file
	off       []string
	processes []int // that compute on it
}

// gpuCache avoids repeated calls of the driver, which needs seconds to respond without its
// persistence daemon.
type gpuCache struct {
	sync.Mutex

	at    time.Time
	cards []card
}

// gpuFor is the time that a response of the driver is cached. Every step reads the GPUs twice or more.
const gpuFor = 2 * time.Second

// cards lists the GPUs.
func (h *Host) cards(ctx context.Context) ([]card, error) {
	h.gpus.Lock()
	defer h.gpus.Unlock()
	if h.gpus.cards != nil && h.Clock.Now().Sub(h.gpus.at) < gpuFor {
		return h.gpus.cards, nil
	}
	out, err := h.smi(ctx, "-q", "-x")
	if err != nil {
		return nil, err
	}
	cards, err := parseCards(out)
	if err != nil {
		return nil, err
	}
	if h.CorrectHealth != nil {
		h.correctHealth(ctx, cards)
	}
	h.gpus.at, h.gpus.cards = h.Clock.Now(), cards
	return cards, nil
}

// smi runs the driver's tool.
func (h *Host) smi(ctx context.Context, args ...string) ([]byte, error) {
	path := h.SMI.Path
	if path == "" {
		path = nvidiasmi.DefaultPath
	}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%s is not an absolute path", path)
	}
	out, err := h.Start(ctx, path, nil, args...)
	if err != nil {
		return nil, fmt.Errorf("asking the driver: %w", err)
	}
	return out, nil
}

// correctHealth adds the findings of other sources, such as the kernel log.
func (h *Host) correctHealth(ctx context.Context, cards []card) {
	gpus := make([]protocol.GPU, len(cards))
	for i := range cards {
		gpus[i] = cards[i].GPU
	}
	h.CorrectHealth(ctx, gpus)
	for i := range cards {
		cards[i].Health, cards[i].Reasons = gpus[i].Health, gpus[i].Reasons
	}
}

// changed makes the next read call the driver again.
func (h *Host) changed() {
	h.gpus.Lock()
	defer h.gpus.Unlock()
	h.gpus.cards = nil
}

// extra contains the fields of nvidia-smi that are not in the inventory.
type extra struct {
	GPUs []struct {
		UUID        string `xml:"uuid"`
		Minor       string `xml:"minor_number"`
		Compute     string `xml:"compute_mode"`
		Persistence string `xml:"persistence_mode"`
		Processes   []struct {
			PID  int    `xml:"pid"`
			Type string `xml:"type"`
		} `xml:"processes>process_info"`
	} `xml:"gpu"`
}

func parseCards(out []byte) ([]card, error) {
	out, err := nvidiasmi.WithoutNames(out)
	if err != nil {
		return nil, fmt.Errorf("reading nvidia-smi output: %w", err)
	}
	inventory, err := nvidiasmi.Parse(bytes.NewReader(out))
	if err != nil {
		return nil, err
	}
	var more extra
	if err := xml.Unmarshal(out, &more); err != nil {
		return nil, fmt.Errorf("reading nvidia-smi output: %w", err)
	}
	if len(more.GPUs) != len(inventory.GPUs) {
		return nil, errors.New("nvidia-smi lists its GPUs twice, and differently")
	}
	cards := make([]card, len(inventory.GPUs))
	for i, g := range inventory.GPUs {
		x := more.GPUs[i]
		minor, err := strconv.Atoi(strings.TrimSpace(x.Minor))
		if err != nil || minor < 0 || minor > maxMinor || strings.TrimSpace(x.UUID) != g.UUID {
			// Without the minor number the device file of the GPU is not known.
			return nil, fmt.Errorf("GPU %s has minor number %.20q", g.UUID, x.Minor)
		}
		cards[i] = card{GPU: g, minor: minor}
		// A missing mode means that the device does not support modes, so the mode is not wrong.
		if mode := strings.TrimSpace(x.Compute); mode != "" && mode != "Default" && mode != "N/A" {
			cards[i].off = append(cards[i].off, "compute mode "+mode)
		}
		if strings.TrimSpace(x.Persistence) == "Disabled" {
			cards[i].off = append(cards[i].off, "persistence mode off")
		}
		for _, p := range x.Processes {
			if strings.Contains(p.Type, "C") && p.PID > 0 { // graphics alone is the display of the host OS
				cards[i].processes = append(cards[i].processes, p.PID)
			}
		}
	}
	return cards, nil
}

// maxMinor is the driver's own: 255 is its control device.
const maxMinor = 254

func (c card) file() string { return "/dev/nvidia" + strconv.Itoa(c.minor) }

var gpuUUID = regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// cardOf finds one GPU.
func (h *Host) cardOf(ctx context.Context, uuid string) (card, error) {
	cards, err := h.cards(ctx)
	if err != nil {
		return card{}, err
	}
	for _, c := range cards {
		if c.UUID == uuid && gpuUUID.MatchString(uuid) {
			return c, nil
		}
	}
	return card{}, fmt.Errorf("GPU %s is not on this node", uuid)
}
