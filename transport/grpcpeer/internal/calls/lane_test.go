package calls

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"

	"symbio/community"
	pb "symbio/proto/symbio/v1"
)

// opened is a stream whose caller has sent the first frame, and nothing after it.
type opened struct {
	grpc.BidiStreamingServer[pb.Frame, pb.Frame]
	ctx   context.Context
	first *pb.Frame
}

func (s *opened) Context() context.Context { return s.ctx }

func (s *opened) Send(*pb.Frame) error { return nil }

func (s *opened) Recv() (*pb.Frame, error) {
	if f := s.first; f != nil {
		s.first = nil
		return f, nil
	}
	<-s.ctx.Done()
	return nil, io.EOF
}

// connected is a caller over one connection.
type connected struct{ conn Connection }

func (c *connected) From() community.Peer { return community.Peer{ID: "aa"} }

func (c *connected) Connection() *Connection { return &c.conn }

func TestLaneIsTheOneThatItsFirstFrameNames(t *testing.T) {
	for name, first := range map[int]*pb.Frame{short: {Open: &pb.Open{}}, bulk: {Open: &pb.Open{Bulk: true}}} {
		synctest.Test(t, func(t *testing.T) {
			caller := &connected{}
			s := &Server{Caller: func(context.Context) (Caller, bool) { return caller, true }}
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() {
				if err := s.Link(&opened{ctx: ctx, first: first}); !errors.Is(err, io.EOF) {
					t.Errorf("lane %d ended with %v", name, err)
				}
			})
			synctest.Wait()
			if (caller.conn.lanes[short] != nil) != (name == short) || (caller.conn.bulk() != nil) != (name == bulk) {
				t.Errorf("lane %d is not the one that is open: %v", name, caller.conn.lanes)
			}
			if err := s.Link(&opened{ctx: ctx, first: &pb.Frame{Open: &pb.Open{Bulk: name == bulk}}}); !errors.Is(FromStatus(err),
				community.ErrBusy) {
				t.Errorf("lane %d is opened twice: %v", name, err)
			}
			cancel()
			running.Wait()
			if caller.conn.lanes != [lanes]*outbox{} {
				t.Errorf("lane %d is open after its end", name)
			}
		})
	}
}
