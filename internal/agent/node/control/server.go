// Package control serves symbio.v1.Control, the gRPC service of the node's Unix
// socket, to the command line. It translates between messages and the parts of
// the node; it makes no decisions of its own. Access to the socket is the only
// check: every caller is the user that runs the node (package state).
package control

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/community"
	"symbio/internal/agent/node/approvals"
	"symbio/internal/agent/node/artifacts"
	"symbio/internal/agent/node/control/directory"
	"symbio/internal/agent/node/control/interceptor"
	"symbio/internal/agent/node/fleet"
	"symbio/internal/agent/node/peers"
	"symbio/internal/agent/node/rules"
	"symbio/internal/agent/node/skillset"
	"symbio/internal/agent/node/steering"
	"symbio/internal/agent/node/tasks"
	"symbio/internal/agent/placement"
	symbiov1 "symbio/proto/symbio/v1"
)

// Config has the parts of the node that the command line uses. All fields are
// required unless their comment says otherwise.
type Config struct {
	// Version and Workspace are reported by Status.
	Version, Workspace string
	Started            time.Time
	Peers              *peers.Peers
	Community          *community.Community
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
	// Drain refuses new work while the node drains, and has its name.
	Drain *tasks.Gate
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
		grpc.ChainUnaryInterceptor(interceptor.Unary(cfg.Logger), cfg.Drain.Unary),
		grpc.ChainStreamInterceptor(interceptor.Stream(cfg.Logger), cfg.Drain.Stream))
	members := directory.New(directory.Config{
		Community: cfg.Community, Peers: cfg.Peers, Events: cfg.Events, Steering: cfg.Steering, Fleet: cfg.Fleet, Artifacts: cfg.Artifacts,
		Loads: cfg.Loads, NodeName: cfg.NodeName,
	})
	symbiov1.RegisterControlServer(s, &server{cfg, members, artifacts.Service{Server: cfg.Artifacts, FetchFrom: members.FetchArtifact}, cfg.Skills, cfg.Tasks})
	grpc_health_v1.RegisterHealthServer(s, cfg.Health)
	reflection.Register(s)
	return s
}

// artifactService is another name of its type, because a server embeds another type that is called Service.
type artifactService = artifacts.Service

// server implements the service. Its methods are called concurrently; their
// errors become a gRPC status by package interceptor.
type server struct {
	cfg Config
	directory.Directory
	artifactService
	skillset.Service
	*tasks.Tasks
}

// Status returns what the node is and where it listens.
func (c *server) Status(context.Context, *symbiov1.StatusRequest) (*symbiov1.StatusReply, error) {
	return &symbiov1.StatusReply{
		Id: string(c.cfg.Peers.Identity.ID()), Name: c.cfg.Drain.Name, Listen: c.cfg.Peers.Addr(), Pid: int64(os.Getpid()),
		Version: c.cfg.Version, Started: timestamppb.New(c.cfg.Started), Authority: c.cfg.Peers.Identity.Authority(),
		Workspace: c.cfg.Workspace, Private: c.cfg.Users != nil, Sources: c.cfg.Peers.SourceHealth(), Models: c.cfg.ModelHealth(),
	}, nil
}

// Spawn starts an agent that lives until it is terminated or the node stops;
// with keep it lives again when the node starts.
func (c *server) Spawn(ctx context.Context, r *symbiov1.SpawnRequest) (*symbiov1.LocatedMember, error) {
	if len(r.GetOn()) > 0 {
		if r.GetKeep() {
			return nil, fmt.Errorf("%w: an agent on another node ends with this one; only one of this node can be kept", community.ErrInvalid)
		}
		m, err := c.Borrow(ctx, &symbiov1.RunRequest{Agent: r.GetAgent(), On: r.GetOn()}, tasks.RemoteOrder{Name: r.GetName()})
		if err != nil {
			return nil, err
		}
		c.Keep(m)
		return c.Locate(m.Member()), nil
	}
	def, err := c.cfg.Agents.Definitions.Find(r.GetAgent())
	if err != nil {
		return nil, err
	}
	m, err := c.cfg.Agents.Spawn(ctx, agent.Order{Definition: def, Name: r.GetName(), Session: session.Info{Keep: r.GetKeep() || def.Keep}})
	return c.Locate(m), err
}

// Terminate ends an agent of this node, or one of another node that Spawn has started there, and waits until it has ended.
func (c *server) Terminate(ctx context.Context, r *symbiov1.TerminateRequest) (*symbiov1.LocatedMember, error) {
	return c.Directory.Terminate(ctx, r.GetMember(), c.EndKept)
}

// Approvals returns the calls that wait for a decision, on this node and on
// those that let this one see theirs.
func (c *server) Approvals(ctx context.Context, r *symbiov1.ApprovalsRequest) (*symbiov1.ApprovalsReply, error) {
	return c.cfg.Approvals.List(ctx, r.GetId(), r.GetHere()), nil
}

// Answer approves or denies one call.
func (c *server) Answer(ctx context.Context, r *symbiov1.AnswerRequest) (*symbiov1.AnswerReply, error) {
	a, err := c.cfg.Approvals.Answer(ctx, r)
	return &symbiov1.AnswerReply{Approval: a}, err
}

// Rules returns the lasting approvals.
func (c *server) Rules(context.Context, *symbiov1.RulesRequest) (*symbiov1.RulesReply, error) {
	return &symbiov1.RulesReply{Rules: c.cfg.Rules.Standing()}, nil
}

// Forget revokes one lasting approval.
func (c *server) Forget(_ context.Context, r *symbiov1.ForgetRequest) (*symbiov1.ForgetReply, error) {
	return &symbiov1.ForgetReply{}, c.cfg.Rules.Forget(r.GetId())
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

// Drain makes the node take no new work, and sends what still runs.
func (c *server) Drain(r *symbiov1.DrainRequest, stream symbiov1.Control_DrainServer) error {
	return c.cfg.Drain.Drain(stream.Context(), r, stream.Send)
}

// Dashboard makes the dashboard listen, if it does not yet, and returns an
// address that opens it once. FailedPrecondition: it must not, or cannot,
// listen at the address that was asked for.
func (c *server) Dashboard(ctx context.Context, r *symbiov1.DashboardRequest) (*symbiov1.DashboardReply, error) {
	return c.cfg.Dashboard(ctx, r)
}
