package dashboard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/internal/agent/node/fleet"
	symbiov1 "symbio/proto/symbio/v1"
)

const (
	// minPause is between two versions of a page: changes that come together are shown together.
	minPause = 250 * time.Millisecond
	// pauseFactor makes the pause a multiple of the time for the last version, so that one open page of a
	// large community takes at most a twentieth of a core.
	pauseFactor = 19
	// alive is how often the page is looked at without changes, and something is sent, so that a browser
	// that has gone is noticed.
	alive = 15 * time.Second
)

// stream sends a live page again whenever the community changes, as
// server-sent events. It ends when the browser goes or does not read for
// writeTimeout, with its session's right, and with the node. The browser then connects again.
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

// sendVersions sends the page after changes, if it has become another one.
func (s *site) sendVersions(ctx context.Context, to sender, p page, r *http.Request, changes <-chan *symbiov1.FleetChange) error {
	f, last, changed := fleet.NewOverview(), []byte(nil), false
	v := &view{s.Dashboard, r, func(context.Context) (*fleet.Overview, error) { return f, nil }}
	if err := to.send(nil); err != nil { // the browser knows at once that there is a stream
		return err
	}
	tick := time.NewTicker(minPause)
	defer tick.Stop()
	for next := time.Now(); ; {
		select {
		case c := <-changes:
			f.Apply(c)
			changed = true
		case now := <-tick.C:
			if now.Before(next) || !changed && now.Before(next.Add(alive)) {
				continue
			}
			if !s.allows(sessionIn(ctx)) {
				return errors.New("the role was taken that gave this session")
			}
			html, err := s.version(ctx, v, p)
			if err != nil {
				return err
			}
			if bytes.Equal(html, last) {
				html = nil
			} else {
				last = html
			}
			if err := to.send(html); err != nil {
				return err
			}
			changed, next = false, now.Add(pauseFactor*time.Since(now))
		case <-ctx.Done():
			return ctx.Err()
		}
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
