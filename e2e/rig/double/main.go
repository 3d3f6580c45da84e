// Command double replaces nvidia-smi and the scrub child on the containers of the rig. It prints and
// changes simulated hardware and proves nothing about a GPU.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// state is the folder of the simulated hardware. Users of GPU n have the file gpu<n> in it open.
const state = "/var/lib/rig"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) > 1 && args[0] == "rig" {
		return control(args[1:], out)
	}
	h, err := readHost()
	if err != nil {
		return err
	}
	if filepath.Base(os.Args[0]) == "gpuaas-scrub" {
		return scrub(h, args)
	}
	if how := h.Fails["nvidia-smi"]; how == "hang" {
		select {}
	} else if how != "" {
		return errors.New(how)
	}
	if len(args) == 4 && args[0] == "-i" && (args[2] == "-pm" || args[2] == "-c") { // a mode to its baseline
		return sim.Edit(sim.Path(state), func(h *sim.Host) error {
			for _, g := range h.GPUs {
				if g.UUID == args[1] {
					g.Off = nil
				}
			}
			return nil
		})
	}
	switch strings.Join(args, " ") {
	case "-q -x", "-x -q":
		text, err := h.SMI()
		if err == nil {
			_, err = io.WriteString(out, text)
		}
		return err
	case "nvlink -s":
		_, err := io.WriteString(out, h.Links())
		return err
	}
	if len(args) == 4 && args[0] == "-i" && (args[2] == "-pm" || args[2] == "-c") {
		return nil // the simulated hardware has one mode only
	}
	return fmt.Errorf("the double of nvidia-smi does not know %q", args)
}

// scrub simulates the overwriting of a GPU's memory. It fails for a GPU in use.
func scrub(h *sim.Host, args []string) error {
	if how := h.Fails["scrub"]; how == "hang" {
		select {}
	} else if how != "" {
		return errors.New(how)
	}
	if len(args) != 1 {
		return errors.New("which GPU?")
	}
	for _, p := range h.Processes {
		if p.GPU == args[0] {
			return fmt.Errorf("GPU %s is in use by process %d", p.GPU, p.PID)
		}
	}
	return sim.Edit(sim.Path(state), func(h *sim.Host) error {
		h.Scrubs++
		return nil
	})
}

// control executes a command of the rig.
func control(args []string, out io.Writer) error {
	switch args[0] {
	case "make":
		hostname := args[2]
		node := ids.Node{UUID: uuid.NewSHA1(uuid.NameSpaceDNS, []byte(hostname))}
		if _, err := sim.Open(state, node, args[1], hostname); err != nil {
			return err
		}
		return control([]string{"uuids"}, out)
	case "uuids":
		h, err := sim.Read(sim.Path(state))
		if err != nil {
			return err
		}
		for i, g := range h.GPUs {
			fmt.Fprintln(out, g.UUID)
			if err := os.WriteFile(filepath.Join(state, fmt.Sprintf("gpu%d", i)), nil, 0o666); err != nil { //nolint:gosec // anybody may be planted as its user
				return err
			}
		}
		return os.Chmod(state, 0o755)
	case "fault": // GPU XID
		gpu, _ := strconv.Atoi(args[1])
		xid, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return sim.Fault(state, gpu, xid)
	case "heal":
		return sim.Heal(state)
	case "fail": // OPERATION HOW: nvidia-smi or scrub, hang or a sentence
		return sim.Edit(sim.Path(state), func(h *sim.Host) error {
			if h.Fails == nil {
				h.Fails = map[string]string{}
			}
			h.Fails[args[1]] = strings.Join(args[2:], " ")
			return nil
		})
	}
	return fmt.Errorf("the rig's double does not know %q", args)
}

// readHost returns the hardware with its current users: the processes with a GPU's file open, as the
// driver lists those with the device open.
func readHost() (*sim.Host, error) {
	h, err := sim.Read(sim.Path(state))
	if err != nil {
		return nil, err
	}
	fds, err := firstDescriptors()
	if err != nil {
		return nil, err
	}
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err != nil || filepath.Dir(target) != state {
			continue
		}
		number, ok := strings.CutPrefix(filepath.Base(target), "gpu")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || n >= len(h.GPUs) {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(fd, "/")[2])
		p := sim.Process{PID: pid, UID: owner(pid), GPU: h.GPUs[n].UUID, Command: "opens " + target}
		if !slices.Contains(h.Processes, p) {
			h.Processes = append(h.Processes, p)
		}
	}
	return h, nil
}

// firstDescriptors lists the first descriptors of each process. A driver knows its users without reading any table.
func firstDescriptors() (fds []string, err error) {
	tables, err := filepath.Glob("/proc/[0-9]*/fd")
	if err != nil {
		return nil, err
	}
	for _, table := range tables {
		dir, err := os.Open(table)
		if err != nil {
			continue // it has ended
		}
		const some = 32
		names, _ := dir.Readdirnames(some)
		_ = dir.Close()
		for _, name := range names {
			fds = append(fds, filepath.Join(table, name))
		}
	}
	return fds, nil
}

func owner(pid int) int {
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return -1
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return -1
}
