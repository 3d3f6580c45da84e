package agent

import (
	"net"
	"os"
	"strconv"
	"time"
)

// notify sends a state to systemd if NOTIFY_SOCKET is set.
func (c Config) notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if path[0] == '@' { // an abstract socket
		path = "\x00" + path[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close()
	}
	if err != nil {
		c.Log.Warn("systemd not notified", "state", state, "err", err)
	}
}

// watchdogEvery is a third of the interval that systemd allows between two pings, or zero without a
// watchdog.
func watchdogEvery(env func(string) string) time.Duration {
	micros, err := strconv.ParseInt(env("WATCHDOG_USEC"), 10, 64)
	if err != nil || micros <= 0 {
		return 0
	}
	if pid := env("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	return time.Duration(micros) * time.Microsecond / 3
}
