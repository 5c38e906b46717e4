//! What this domain has besides its routes.

use super::service::Memory;
use super::worker::{
    ConsolidateConversations, EmbedEpisodes, ExtractEntities, FlushIndex, ForgetEpisodes, PruneChanges,
    RememberConversations, WarmIndex, WriteRecalls,
};
use crate::runtime::{Domain, Workers};

impl Domain for Memory {
    fn add_workers(&self, workers: &mut Workers) {
        workers.add(WarmIndex(self.clone()));
        workers.add(FlushIndex(self.clone()));
        workers.add(EmbedEpisodes::new(self.clone()));
        workers.add(PruneChanges(self.clone()));
        workers.add(WriteRecalls(self.clone()));
        workers.add(RememberConversations(self.clone()));
        workers.add(ConsolidateConversations(self.clone()));
        workers.add(ForgetEpisodes(self.clone()));
        workers.add(ExtractEntities(self.clone()));
    }
}
