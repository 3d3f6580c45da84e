package event

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics collects the backlog of the outbox, at each scrape.
type Metrics struct{ *Relay }

// scrapeTimeout bounds the query, so that a slow database does not block scrapes.
const scrapeTimeout = 5 * time.Second

var (
	outboxPending = prometheus.NewDesc("gpuaas_outbox_pending", "Events that the stream does not contain yet, counted up to 10,000.", []string{"stream"}, nil)
	outboxAge     = prometheus.NewDesc("gpuaas_outbox_oldest_age_seconds", "Age of the oldest event that the stream does not contain yet.", []string{"stream"}, nil)
	streamBytes   = prometheus.NewDesc("gpuaas_stream_bytes", "Bytes of the messages that NATS stores for a stream.", []string{"stream"}, nil)
	streamSize    = prometheus.NewDesc("gpuaas_stream_messages", "Messages that NATS stores for a stream.", []string{"stream"}, nil)
	deadLetters   = prometheus.NewDesc("gpuaas_dead_letters", "Dead letters that no operator has resolved.", []string{"stream"}, nil)
)

// Describe sends the descriptions of all metrics.
func (Metrics) Describe(c chan<- *prometheus.Desc) {
	c <- outboxPending
	c <- outboxAge
	c <- deadLetters
	c <- streamBytes
	c <- streamSize
}

// Collect reads the backlog. What cannot be read is left out.
func (m Metrics) Collect(c chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout) //nolint:forbidigo // Prometheus hands no context to a collector
	defer cancel()
	m.collectStreams(ctx, c)
	backlog, err := m.Pending(ctx)
	if err != nil {
		return
	}
	for _, b := range backlog {
		c <- prometheus.MustNewConstMetric(outboxPending, prometheus.GaugeValue, float64(b.Pending), b.Stream)
		c <- prometheus.MustNewConstMetric(outboxAge, prometheus.GaugeValue, b.OldestFor.Seconds(), b.Stream)
		c <- prometheus.MustNewConstMetric(deadLetters, prometheus.GaugeValue, float64(b.DeadLetters), b.Stream)
	}
}

// collectStreams reads the size of each stream from NATS, except one that does not exist yet.
func (m Metrics) collectStreams(ctx context.Context, c chan<- prometheus.Metric) {
	if !m.JS.Conn().IsConnected() {
		return // a request would wait for the timeout
	}
	for _, name := range append(outboxStreams[:], StreamDLQ) {
		stream, err := m.JS.Stream(ctx, name)
		if err != nil {
			continue
		}
		state := stream.CachedInfo().State
		c <- prometheus.MustNewConstMetric(streamBytes, prometheus.GaugeValue, float64(state.Bytes), name)
		c <- prometheus.MustNewConstMetric(streamSize, prometheus.GaugeValue, float64(state.Msgs), name)
	}
}
