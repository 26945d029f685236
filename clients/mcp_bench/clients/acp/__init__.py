"""A client for agents that speak the Agent Client Protocol, like an editor: https://agentclientprotocol.com"""
