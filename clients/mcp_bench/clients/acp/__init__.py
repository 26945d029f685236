"""A client of agents that speak the Agent Client Protocol, as an editor would be: https://agentclientprotocol.com"""
