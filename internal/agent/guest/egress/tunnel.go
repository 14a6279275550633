package egress

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// tunnel takes the client's connection over, and copies both ways until the server has ended, one side fails, ctx ends, or
// there is no traffic for idleTimeout. It closes both connections. After an error the client has no response yet.
func tunnel(ctx context.Context, w http.ResponseWriter, server net.Conn) (sent, received int64, err error) {
	client, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return 0, 0, err
	}
	end := func() { client.Close(); server.Close() }
	defer end()
	defer context.AfterFunc(ctx, end)()
	idle := time.AfterFunc(idleTimeout, end)
	defer idle.Stop()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return 0, 0, nil
	}
	up, down := &meter{to: server, idle: idle}, &meter{to: client, idle: idle}
	var copying sync.WaitGroup
	copying.Go(func() {
		_, err := io.Copy(up, early) // early has what the client sent right after its request
		// A client that has sent everything may wait for the rest of the response.
		half, ok := server.(interface{ CloseWrite() error })
		if err != nil || !ok || half.CloseWrite() != nil {
			end()
		}
	})
	copying.Go(func() {
		defer end()
		io.Copy(down, server)
	})
	copying.Wait()
	return up.n.Load(), down.n.Load(), nil
}

// meter counts the bytes of one direction, and puts the end of the connection off.
type meter struct {
	to   io.Writer
	idle *time.Timer
	n    atomic.Int64
}

func (m *meter) Write(p []byte) (int, error) {
	m.idle.Reset(idleTimeout)
	n, err := m.to.Write(p)
	m.n.Add(int64(n))
	return n, err
}
