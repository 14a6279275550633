package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	symbiov1 "symbio/proto/symbio/v1"
)

const (
	// minPause is between two versions of a page: changes that come together are shown together.
	minPause = 250 * time.Millisecond
	// pauseFactor makes the pause a multiple of what the last version took, so that one open page of a
	// large community takes at most a twentieth of a core.
	pauseFactor = 19
	// alive is how often a stream without changes sends something, so that a browser that has gone is
	// noticed.
	alive = 15 * time.Second
)

// stream sends a live page again whenever the community changes, as
// server-sent events. It ends when the browser goes or does not read for
// writeTimeout, and with the node. The browser then connects again.
func (s *site) stream(w http.ResponseWriter, r *http.Request, p page) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		http.Error(w, fmt.Sprintf("%d pages are kept current already; close some", maxStreams), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	g, ctx := errgroup.WithContext(r.Context())
	changes := make(chan *symbiov1.FleetChange, 16)
	g.Go(func() error { return s.receive(ctx, changes) })
	g.Go(func() error {
		return s.sendVersions(ctx, sender{w, http.NewResponseController(w)}, p, r, changes)
	})
	if err := g.Wait(); err != nil && r.Context().Err() == nil {
		s.cfg.Logger.Debug("stream of the dashboard", "err", err)
	}
}

// receive passes on what the node says of the community, until ctx ends.
func (s *site) receive(ctx context.Context, to chan<- *symbiov1.FleetChange) error {
	stream, err := s.cfg.Client.WatchFleet(ctx, &symbiov1.FleetRequest{})
	for err == nil {
		var change *symbiov1.FleetChange
		if change, err = stream.Recv(); err == nil {
			select {
			case to <- change:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return fmt.Errorf("watching the community: %w", err)
}

// sendVersions sends the page after changes, if it has become another.
func (s *site) sendVersions(ctx context.Context, to sender, p page, r *http.Request, changes <-chan *symbiov1.FleetChange) error {
	f := newFleet()
	v := &view{Dashboard: s.Dashboard, Request: r, fleet: func(context.Context) (*fleet, error) { return f, nil }}
	var last []byte
	timer := time.NewTimer(alive)
	defer timer.Stop()
	for {
		select {
		case c := <-changes:
			f.apply(c)
		case <-timer.C:
			if err := to.send(nil); err != nil {
				return err
			}
			timer.Reset(alive)
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		for len(changes) > 0 {
			f.apply(<-changes)
		}
		began := time.Now()
		html, err := s.version(ctx, v, p)
		if err != nil {
			return err
		}
		if !bytes.Equal(html, last) {
			if err := to.send(html); err != nil {
				return err
			}
			last = html
		}
		if err := pause(ctx, max(minPause, pauseFactor*time.Since(began))); err != nil {
			return err
		}
		timer.Reset(alive)
	}
}

// version returns the page as it is now. An error of its data is the page of
// that error: the agent may have ended.
func (s *site) version(ctx context.Context, v *view, p page) ([]byte, error) {
	data, err := p.data(ctx, v)
	if err != nil {
		return s.render(layout{Page: page{name: "message"}, Title: "This is not there any more", Data: message{Text: errorText(err), Back: "/"}})
	}
	return s.render(layout{Page: p, Title: p.title, Data: data})
}

// pause waits. It returns the error of ctx if that ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sender writes server-sent events.
type sender struct {
	w http.ResponseWriter
	c *http.ResponseController
}

// send sends a page; nil = a comment, which browsers ignore. It fails if the
// browser does not read for writeTimeout.
func (s sender) send(html []byte) error {
	if err := s.c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	text := []byte(":\n\n")
	if html != nil {
		text = append([]byte("data: "), bytes.ReplaceAll(bytes.TrimSpace(html), []byte("\n"), []byte("\ndata: "))...)
		text = append(text, "\n\n"...)
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.c.Flush()
}
