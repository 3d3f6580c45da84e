package natsd

import (
	"fmt"
	"log/slog"
)

// logger gives the server's lines to ours. Its notices are about itself and
// start every run: they are details here.
type logger struct {
	log   *slog.Logger
	fatal chan<- string // buffered; what stops the server before it is ready
}

func (l logger) Noticef(format string, v ...any) {
	l.log.Debug("nats", "text", fmt.Sprintf(format, v...))
}

func (l logger) Debugf(format string, v ...any) {
	l.log.Debug("nats", "text", fmt.Sprintf(format, v...))
}

func (l logger) Tracef(format string, v ...any) {
	l.log.Debug("nats", "text", fmt.Sprintf(format, v...))
}

func (l logger) Warnf(format string, v ...any) { l.log.Warn("nats", "text", fmt.Sprintf(format, v...)) }

func (l logger) Errorf(format string, v ...any) {
	l.log.Error("nats", "text", fmt.Sprintf(format, v...))
}

func (l logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Error("nats", "text", text)
	select {
	case l.fatal <- text:
	default:
	}
}
