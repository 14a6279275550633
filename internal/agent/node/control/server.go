// Package control serves symbio.v1.Control, the gRPC service of the node's Unix
// socket, to the command line. It translates between messages and the parts of
// the node; it makes no decisions of its own. Access to the socket is the only
// check: every caller is the user that runs the node (package state).
package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent"
	"symbio/agent/conversation"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/community"
	"symbio/internal/agent/content"
	"symbio/internal/agent/node/approvals"
	"symbio/internal/agent/node/artifacts"
	"symbio/internal/agent/node/dashboard"
	"symbio/internal/agent/node/fleet"
	"symbio/internal/agent/node/peers"
	"symbio/internal/agent/node/rules"
	"symbio/internal/agent/node/skillset"
	"symbio/internal/agent/node/state"
	"symbio/internal/agent/node/steering"
	"symbio/internal/agent/node/tasks"
	"symbio/internal/agent/placement"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/identity"
	"symbio/skills"
)

// Config has the parts of the node that the command line uses. All fields are
// required unless their comment says otherwise.
type Config struct {
	// Name, Version and Workspace are reported by Status.
	Name, Version, Workspace string
	Started                  time.Time
	Peers                    *peers.Peers
	Community                *community.Community
	// ModelHealth returns what the node learnt of models that do not do well.
	ModelHealth func() []*symbiov1.ModelHealth
	Events      *event.Stream
	Agents      *tasks.Spawner
	Rules       *rules.Rules
	Approvals   *approvals.Queue
	Steering    *steering.Controller
	Fleet       *fleet.Fleet
	Artifacts   *artifacts.Server
	// Model opens the model of a name.
	Model func(ctx context.Context, name string) (llm.Model, error)
	// Skills has the methods of the service for skills and prompts, Tasks those for tasks.
	Skills skillset.Service
	Tasks  *tasks.Tasks
	// Resume returns the order that goes on with a session. Its errors wrap
	// session.ErrNotFound if there is none.
	Resume func(ctx context.Context, session string) (agent.Order, error)
	// Reload reads the files that the command line writes, and with
	// configuration the rules of the configuration file, too.
	Reload func(configuration bool) (*symbiov1.ReloadReply, error)
	// Loads asks the nodes that lend agents for their loads, for at most a second.
	Loads func(context.Context) map[community.MemberID]placement.Load
	// Dashboard opens the dashboard in the browser; see dashboard.Dashboard.Open.
	Dashboard func(context.Context, *symbiov1.DashboardRequest) (*symbiov1.DashboardReply, error)
	// NodeName returns the name of a node, or its id if the name is not known.
	NodeName func(community.NodeID) string
	// Users gets the commands that have work done, if the node ends with the last of them, as Status
	// reports; nil = it lives on.
	Users *Users
	// Health is served as grpc.health.v1.
	Health *health.Server
	// Logger gets panics of calls and failures to terminate an agent.
	Logger *slog.Logger
}

// maxReceived bounds a message of a caller in bytes: the pictures of a message to an agent, and room
// for its text.
const maxReceived = llm.MaxImageBytes + 4<<20

// NewServer returns the gRPC server of the control socket. The caller serves
// and stops it. A panic in a call becomes an error of that call. Reflection is
// on, so that grpcurl works on the socket.
func NewServer(cfg Config) *grpc.Server {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(maxReceived), grpc.StatsHandler(connections{cfg.Users}),
		grpc.ChainUnaryInterceptor(recoverUnary(cfg.Logger)), grpc.ChainStreamInterceptor(recoverStream(cfg.Logger)))
	members := directory{cfg}
	symbiov1.RegisterControlServer(s, &server{fleetServer{cfg: cfg, members: members},
		artifacts.Service{Server: cfg.Artifacts, FetchFrom: members.fetchArtifact}, cfg.Skills, cfg.Tasks})
	grpc_health_v1.RegisterHealthServer(s, cfg.Health)
	reflection.Register(s)
	return s
}

// artifactService is another name of its type, because a server embeds another type that is called Service.
type artifactService = artifacts.Service

// server implements the service. Its methods are called concurrently; their
// errors become a gRPC status by statusOf.
type server struct {
	fleetServer // has the methods of the view of the community
	artifactService
	skillset.Service
	*tasks.Tasks
}

// Status returns what the node is and where it listens.
func (c *server) Status(context.Context, *symbiov1.StatusRequest) (*symbiov1.StatusReply, error) {
	return &symbiov1.StatusReply{
		Id: string(c.cfg.Peers.Identity.ID()), Name: c.cfg.Name, Listen: c.cfg.Peers.Addr(), Pid: int64(os.Getpid()),
		Version: c.cfg.Version, Started: timestamppb.New(c.cfg.Started), Authority: c.cfg.Peers.Identity.Authority(),
		Workspace: c.cfg.Workspace, Private: c.cfg.Users != nil, Sources: c.cfg.Peers.SourceHealth(), Models: c.cfg.ModelHealth(),
	}, nil
}

// optional returns a pointer to v, or nil for the zero value: nil fields are
// left out of --json.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Spawn starts an agent that lives until it is terminated or the node stops;
// with keep it lives again when the node starts.
func (c *server) Spawn(ctx context.Context, r *symbiov1.SpawnRequest) (*symbiov1.LocatedMember, error) {
	def, err := c.cfg.Agents.Definitions.Find(r.GetAgent())
	if err != nil {
		return nil, err
	}
	m, err := c.cfg.Agents.Spawn(ctx, agent.Order{Definition: def, Name: r.GetName(), Session: session.Info{Keep: r.GetKeep() || def.Keep}})
	return c.members.locate(m), err
}

// Terminate ends an agent of this node and waits until it has ended.
func (c *server) Terminate(ctx context.Context, r *symbiov1.TerminateRequest) (*symbiov1.LocatedMember, error) {
	m, err := c.members.find(r.GetMember(), func(community.Member) bool { return true })
	if err != nil {
		return nil, err
	}
	return c.members.locate(m), c.cfg.Community.Terminate(ctx, m.ID)
}

// Send delivers a signal to a member. It waits for the reply unless the request
// says otherwise.
func (c *server) Send(ctx context.Context, r *symbiov1.SendRequest) (*symbiov1.SendReply, error) {
	m, err := c.members.find(r.GetMember(), func(m community.Member) bool { return len(m.Accepts) > 0 })
	if err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, r.GetTimeout())
	defer cancel()
	signal := community.Signal{Perception: r.GetPerception(), Data: r.GetData(), ContentType: r.GetContentType()}
	// A one-way signal has no reply, so reply stays empty for Tell.
	var reply community.Reply
	if r.GetNoReply() {
		err = c.cfg.Community.Tell(ctx, m.ID, signal)
	} else {
		reply, err = c.cfg.Community.Send(ctx, m.ID, signal)
	}
	if err != nil {
		return nil, c.members.withAdvice(err, m, "send", r.GetPerception())
	}
	return &symbiov1.SendReply{Data: reply.Data, ContentType: reply.ContentType}, nil
}

// withTimeout returns ctx with the time limit of the request, if it has one.
// The limit is at most a day: a larger number is a mistake, and would keep the
// call's resources for as long.
func withTimeout(ctx context.Context, d *durationpb.Duration) (context.Context, context.CancelFunc) {
	if d.AsDuration() <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, min(d.AsDuration(), 24*time.Hour))
}

// statusOf maps errors to gRPC codes; the first match wins. The command line
// maps the codes to exit codes, so the table is a contract with scripts.
var statusOf = []struct {
	err  error
	code codes.Code
}{
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{context.Canceled, codes.Canceled},
	{community.ErrInvalid, codes.InvalidArgument},
	{community.ErrNotFound, codes.NotFound},
	{skills.ErrNotFound, codes.NotFound},
	{placement.ErrNone, codes.NotFound},
	{session.ErrNotFound, codes.NotFound},
	{session.ErrInUse, codes.ResourceExhausted},
	{agent.ErrNoSessions, codes.FailedPrecondition},
	{community.ErrRemoteMember, codes.FailedPrecondition},
	{community.ErrLocalMember, codes.FailedPrecondition},
	{community.ErrNotAccepted, codes.NotFound},
	{community.ErrNotProvided, codes.NotFound},
	{community.ErrBusy, codes.ResourceExhausted},
	{conversation.ErrBusy, codes.ResourceExhausted},
	{content.ErrPinned, codes.FailedPrecondition},
	{fleet.ErrSlow, codes.ResourceExhausted},
	{dashboard.ErrListen, codes.FailedPrecondition},
	{community.ErrUnavailable, codes.Unavailable},
	{community.ErrStopped, codes.Unavailable},
	{community.ErrDenied, codes.PermissionDenied},
}

// toStatus returns err as a gRPC status with its code of statusOf. It returns
// nil for nil, and a status as it is.
func toStatus(err error) error {
	for _, s := range statusOf {
		if errors.Is(err, s.err) {
			return status.Error(s.code, err.Error())
		}
	}
	return status.Convert(err).Err()
}

// Approvals returns the calls that wait for a decision, on this node and on
// those that let this one see theirs.
func (c *server) Approvals(ctx context.Context, r *symbiov1.ApprovalsRequest) (*symbiov1.ApprovalsReply, error) {
	return c.cfg.Approvals.List(ctx, r.GetId(), r.GetHere()), nil
}

// Answer approves or denies one call.
func (c *server) Answer(ctx context.Context, r *symbiov1.AnswerRequest) (*symbiov1.AnswerReply, error) {
	a, err := c.cfg.Approvals.Answer(ctx, r)
	return &symbiov1.AnswerReply{Approval: a}, toStatus(err)
}

// Rules returns the lasting approvals.
func (c *server) Rules(context.Context, *symbiov1.RulesRequest) (*symbiov1.RulesReply, error) {
	return &symbiov1.RulesReply{Rules: c.cfg.Rules.Standing()}, nil
}

// Forget revokes one lasting approval.
func (c *server) Forget(_ context.Context, r *symbiov1.ForgetRequest) (*symbiov1.ForgetReply, error) {
	return &symbiov1.ForgetReply{}, toStatus(c.cfg.Rules.Forget(r.GetId()))
}

// Reload makes the node read changed files. Every failure is
// FailedPrecondition: nothing has changed, and a person has to act.
func (c *server) Reload(_ context.Context, r *symbiov1.ReloadRequest) (*symbiov1.ReloadReply, error) {
	reply, err := c.cfg.Reload(r.GetConfiguration())
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return reply, nil
}

// recoverUnary turns the error of a control call into a status, and a panic into an error of that call.
// Without it, gRPC would let the panic end the node with all its agents.
func recoverUnary(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicError(log, info.FullMethod, p)
			}
		}()
		reply, err := next(ctx, req)
		return reply, toStatus(err)
	}
}

// recoverStream is recoverUnary for streaming calls. It covers only the goroutine of the handler: a
// panic in a goroutine that the handler starts still ends the node.
func recoverStream(log *slog.Logger) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicError(log, info.FullMethod, p)
			}
		}()
		return toStatus(next(srv, stream))
	}
}

// panicError logs a panic with its stack and returns a status with the code Internal for the
// caller. The caller does not get the stack or the value of the panic.
func panicError(log *slog.Logger, method string, p any) error {
	log.Error("control call panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "the call failed because of a bug in the node; see the node's log")
}

// Promote sends the cluster's authority, a private key, to a connected node of
// the cluster. Only a node that holds the authority can do that.
// FailedPrecondition: this node does not hold it, or the other machine holds
// the authority of another cluster. Unavailable: the node is not connected.
func (c *server) Promote(ctx context.Context, r *symbiov1.PromoteRequest) (*symbiov1.PromoteReply, error) {
	to := community.NodeID(r.GetNode())
	// identity.ErrNoAuthority has no advice, so the message comes from package state, which has.
	err := c.cfg.Peers.Network.Promote(ctx, to)
	switch {
	case errors.Is(err, identity.ErrNoAuthority):
		return nil, status.Error(codes.FailedPrecondition, state.ErrNoAuthority.Error())
	case errors.Is(err, community.ErrUnavailable):
		return nil, status.Error(codes.Unavailable, fmt.Sprintf("node %s is not connected; start it and check `symbio nodes`", to))
	case errors.Is(err, identity.ErrClusterExists):
		return nil, status.Error(codes.FailedPrecondition, fmt.Sprintf("the machine of node %s holds the authority of another cluster", to))
	case err != nil:
		return nil, err
	}
	c.cfg.Events.Publish(event.Event{Type: event.TypePromoted, Name: c.cfg.NodeName(to), Why: "it holds the cluster's authority too", Part: event.Node{ID: string(to)}})
	return &symbiov1.PromoteReply{}, nil
}

// Dashboard makes the dashboard listen, if it does not yet, and returns an
// address that opens it once. FailedPrecondition: it must not, or cannot,
// listen at the address that was asked for.
func (c *server) Dashboard(ctx context.Context, r *symbiov1.DashboardRequest) (*symbiov1.DashboardReply, error) {
	return c.cfg.Dashboard(ctx, r)
}
