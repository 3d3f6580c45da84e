package pgcluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings of every private cluster. jit is off because compiling lasts longer than our statements.
// 60 sessions are enough for the pools of all roles and for psql.
var settings = map[string]string{
	"listen_addresses":        "",
	"unix_socket_permissions": "0700",
	"max_connections":         "60",
	"shared_buffers":          "128MB",
	"jit":                     "off",
	"timezone":                "UTC",
	"log_timezone":            "UTC",
	"logging_collector":       "off",
	"log_line_prefix":         "%m [%p] %a ",
}

var durable = map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}

// fragile are the settings of a test cluster whose data may be lost.
var fragile = map[string]string{
	"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off",
	"shared_buffers": "32MB", "autovacuum": "off", "wal_level": "minimal", "max_wal_senders": "0",
}

func (c *Cluster) arguments(data, socket string) []string {
	all := maps.Clone(settings)
	if c.cfg.Durable {
		maps.Copy(all, durable)
	} else {
		maps.Copy(all, fragile)
	}
	maps.Copy(all, c.cfg.Params)
	args := []string{"-D", data, "-k", socket}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}

// launch starts a server on the directory and waits until it is ready. The caller has locked c.mu.
func (c *Cluster) launch(ctx context.Context) error {
	if err := sweep(ctx, c.data, c.socket); err != nil {
		return fmt.Errorf("ending an orphaned PostgreSQL: %w", err)
	}
	if err := c.as.folder(c.socket); err != nil {
		return err
	}
	log, err := openLog(c.LogFile())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// Not ctx: it ends the start, not the server, which outlives this call.
	cmd, names, done, err := c.as.command(context.WithoutCancel(ctx), filepath.Join(c.bin.Dir, "postgres"), c.data, c.socket)
	if err != nil {
		return err
	}
	defer done()
	cmd.Args = append(cmd.Args, c.arguments(names[0], names[1])...)
	cmd.Stdout, cmd.Stderr = log, log
	server, err := spawn(cmd)
	if err != nil {
		return err
	}
	if err := c.await(ctx, server); err != nil {
		return err
	}
	c.server = server
	return nil
}

// await has no time limit of its own, because the duration of a recovery cannot be predicted.
func (c *Cluster) await(ctx context.Context, server *process) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !ready(c.data, server.cmd.Process.Pid) {
		select {
		case <-server.ended:
			return fmt.Errorf("postgres ended while starting: %w: %s", server.err, lastWords(c.LogFile()))
		case <-ctx.Done():
			server.signal(syscall.SIGQUIT)
			<-server.ended
			return fmt.Errorf("waiting for postgres: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// logLimit is the size at which the log is renamed. One older log is stored.
const logLimit = 16 << 20

func openLog(path string) (*os.File, error) {
	if st, err := os.Stat(path); err == nil && st.Size() > logLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, fmt.Errorf("setting the log aside: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of PostgreSQL: %w", err)
	}
	return f, nil
}

// lastWords returns the last lines of the log of a server that did not start.
func lastWords(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "no log: " + err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-4):], " | ")
}
