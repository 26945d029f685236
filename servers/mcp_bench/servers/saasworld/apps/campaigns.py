"""Campaigns: campaigns, audiences, subscribers, social posts."""

from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError
from mcp_bench.servers.saasworld.engine.app import App
from mcp_bench.servers.saasworld.engine.fields import (
    choice,
    date,
    email,
    flag,
    ident,
    moment,
    number,
    prose,
    ref,
    text,
    texts,
)
from mcp_bench.servers.saasworld.engine.operation import Arguments
from mcp_bench.servers.saasworld.engine.resource import Resource
from mcp_bench.servers.saasworld.engine.seeder import Seeder
from mcp_bench.servers.saasworld.engine.state import Record, State, require_status

CHANNELS = ("email", "social", "search_ads", "display_ads", "event")
STATES = ("draft", "scheduled", "active", "paused", "completed")
NETWORKS = ("linkedin", "instagram", "facebook", "x")

CAMPAIGNS = Resource(
    "campaigns",
    "campaigns",
    "campaign",
    "cmp",
    "Marketing campaigns and their budgets.",
    (
        text("name", "Name.", required=True),
        choice("channel", "Channel.", *CHANNELS, required=True),
        choice("status", "State.", *STATES, readonly=True, default="draft"),
        ref("audience_id", "campaigns.audiences", "Audience."),
        number("budget", "Budget."),
        number("spent", "Spent so far.", readonly=True, default=0),
        choice("currency", "Currency of the budget.", "USD", "EUR", "GBP", default="USD"),
        date("starts_on", "First day"),
        date("ends_on", "Last day"),
        email("owner_email", "Colleague in charge."),
        prose("brief", "What it is to achieve."),
    ),
    ("list", "get", "search", "create", "update"),
)
AUDIENCES = Resource(
    "campaigns",
    "audiences",
    "audience",
    "aud",
    "Lists of subscribers.",
    (text("name", "Name.", required=True), prose("description", "Who is on it.")),
    ("list", "get", "create"),
)
SUBSCRIBERS = Resource(
    "campaigns",
    "subscribers",
    "subscriber",
    "sbr",
    "People who get our campaigns.",
    (
        email("email", "Mail address.", required=True, key=True),
        text("name", "Full name."),
        ref("audience_id", "campaigns.audiences", "Audience.", required=True),
        choice(
            "status", "State.", "subscribed", "unsubscribed", "bounced", readonly=True, default="subscribed"
        ),
        flag("consent", "Whether they agreed to get mail."),
        text("country", "Country or city.", filter=True),
        texts("tags", "Tags.", filter=True),
    ),
)
POSTS = Resource(
    "campaigns",
    "posts",
    "post",
    "pst",
    "Social media posts.",
    (
        ref("campaign_id", "campaigns.campaigns", "Campaign."),
        choice("network", "Network.", *NETWORKS, required=True, key=True),
        prose("text", "Text of the post.", required=True),
        moment("scheduled_at", "When it goes out"),
        choice("status", "State.", "draft", "scheduled", "published", readonly=True, default="draft"),
    ),
)


def _move(state: State, campaign_id: str, to: str, *allowed: str) -> Record:
    campaign = require_status(state.need("campaigns.campaigns", campaign_id), "campaign", *allowed)
    return state.update("campaigns.campaigns", campaign, status=to)


@CAMPAIGNS.action("launch", "Start a campaign now.", ident("campaign"))
def launch(state: State, args: Arguments) -> dict[str, Any]:
    return _move(state, args["id"], "active", "draft", "scheduled", "paused")


@CAMPAIGNS.action("schedule", "Let a draft start on its first day.", ident("campaign"))
def schedule(state: State, args: Arguments) -> dict[str, Any]:
    campaign = state.need("campaigns.campaigns", args["id"])
    if campaign.get("starts_on", "") <= state.today():
        raise ApiError("conflict", "starts_on must be a day to come.", "starts_on")
    return _move(state, args["id"], "scheduled", "draft")


@CAMPAIGNS.action("pause", "Pause an active campaign.", ident("campaign"))
def pause(state: State, args: Arguments) -> dict[str, Any]:
    return _move(state, args["id"], "paused", "active")


@CAMPAIGNS.action("complete", "End a campaign for good.", ident("campaign"))
def complete(state: State, args: Arguments) -> dict[str, Any]:
    return _move(state, args["id"], "completed", "active", "paused")


@SUBSCRIBERS.action("unsubscribe", "Take a subscriber off the list.", ident("subscriber"))
def unsubscribe(state: State, args: Arguments) -> dict[str, Any]:
    found = state.need("campaigns.subscribers", args["id"])
    if found["status"] == "unsubscribed":
        raise ApiError("conflict", "They are unsubscribed already.")
    return state.update("campaigns.subscribers", found, status="unsubscribed")


@POSTS.action("schedule", "Let a draft go out at its time.", ident("post"))
def schedule_post(state: State, args: Arguments) -> dict[str, Any]:
    post = state.need("campaigns.posts", args["id"])
    if post["status"] != "draft":
        raise ApiError("conflict", f"The post is {post['status']}, not a draft.")
    if post.get("scheduled_at", "") <= state.timestamp():
        raise ApiError("conflict", "scheduled_at must be a time to come.", "scheduled_at")
    return state.update("campaigns.posts", post, status="scheduled")


def populate(s: Seeder, count: int) -> None:
    audience = s.add(
        "campaigns.audiences", name=f"{s.city()} newsletter", description="Signed up on the site."
    )
    for _ in range(max(1, count // 5)):
        budget = s.amount(500, 40000, 100)
        campaign = s.add(
            "campaigns.campaigns",
            name=f"{s.project()} {s.city()} {s.pick(('spring', 'summer', 'autumn', 'winter'))}",
            channel=s.pick(CHANNELS),
            status=s.pick(STATES),
            budget=budget,
            spent=s.amount(0, budget, 50),
            currency=s.pick(("USD", "EUR", "GBP")),
            starts_on=s.day(-90, 0),
            ends_on=s.day(1, 90),
            owner_email=s.pick(s.staff).email,
        )
        network, at = s.pick(NETWORKS), s.moment(-20, 20)
        text = f"Meet us in {s.city()}!"
        s.add("campaigns.posts", campaign_id=campaign["id"], network=network, text=text, scheduled_at=at)
    for _ in range(count * 3 // 5):
        person = s.person(s.company())
        s.add(
            "campaigns.subscribers",
            email=person.email,
            name=person.name,
            audience_id=audience["id"],
            status=s.pick(("subscribed", "subscribed", "unsubscribed", "bounced")),
            consent=s.chance(0.8),
            country=s.city(),
        )


APP = App(
    "campaigns",
    "Marketing campaigns.",
    (CAMPAIGNS, AUDIENCES, SUBSCRIBERS, POSTS),
    populate,
    (launch, schedule, pause, complete, unsubscribe, schedule_post),
)
